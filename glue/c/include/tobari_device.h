/* What a sensor runs: 256 bytes of readings sealed so that a server can compute with them and cannot read them.
 *
 *     static tobari_u28 device;
 *     tobari_counter counter = { &flash, load, store };
 *     tobari_u28_open(&device, sizeof device, root, number, &counter);
 *     tobari_u28_seal_at(&device, seconds, 0, readings, frame); // 943 bytes to send, in one piece
 *     tobari_u28_close(&device);                                // wipes it
 *
 * Nothing is allocated. No function takes 8 KiB of stack. A device may be used by one thread at a time. Link libtobari_device_c.a.
 *
 * root: 32 bytes that the device shares with the key holder, uniform and secret; they need not be kept after open.
 * number: below 2^24. It names the key: a device that is given a new key is given a new number.
 *
 * u28 and p17 are the profiles with a time. p1, u25 and gcm have none.
 *
 * All but gcm bear a counter that comes twice: then two readings are told apart or found equal, and nothing else. gcm does not: a counter that comes twice
 * gives readings away. Use it only where the counter's storage is never restored from a copy.
 */
#ifndef TOBARI_DEVICE_H
#define TOBARI_DEVICE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#define TOBARI_ALIGNED alignas(16)
#else
#define TOBARI_ALIGNED _Alignas(16)
#endif

#define TOBARI_READINGS 256
#define TOBARI_ROOT 32
#define TOBARI_P1_FRAME 553
#define TOBARI_U25_FRAME 840
#define TOBARI_GCM_FRAME 284
#define TOBARI_P17_FRAME 560
#define TOBARI_U28_FRAME 943
/* Frames of a key, after which a device needs a new one. */
#define TOBARI_FRAME_LIMIT (UINT32_C(1) << 30)

#define TOBARI_OK 0
#define TOBARI_NULL (-1)      /* a null pointer */
#define TOBARI_SIZE (-2)      /* a header of another version than the library's */
#define TOBARI_NUMBER (-3)    /* a number of 2^24 or more */
#define TOBARI_STORE (-4)     /* load or store did not answer 0 */
#define TOBARI_EXHAUSTED (-5) /* the key has sealed TOBARI_FRAME_LIMIT frames */
#define TOBARI_CLOSED (-6)    /* a device that is not open */
#define TOBARI_TIME (-7)      /* a time of 2^40 seconds or more, or a sheet of 4096 or more */

/* Where a device keeps how far it has counted; both answer 0 when it is done.
 * load gives what was stored last, 0 if nothing was: a failure must not be told as an empty store.
 * store keeps the number for good before it returns. It is called for one frame in 64. */
typedef struct {
    void *context;
    int32_t (*load)(void *context, uint32_t *next);
    int32_t (*store)(void *context, uint32_t next);
} tobari_counter;

/* A device: zero, or opened. */
typedef struct {
    TOBARI_ALIGNED unsigned char bytes[4608];
} tobari_p1;
typedef struct {
    TOBARI_ALIGNED unsigned char bytes[5632];
} tobari_u25;
typedef struct {
    TOBARI_ALIGNED unsigned char bytes[4608];
} tobari_p17;
typedef struct {
    TOBARI_ALIGNED unsigned char bytes[6656];
} tobari_u28;
typedef struct {
    TOBARI_ALIGNED unsigned char bytes[2048];
} tobari_gcm;

/* Opens a device in its memory. counter is copied; its context is used as long as the device is open. */
int32_t tobari_p1_open(tobari_p1 *device, size_t bytes, const uint8_t root[TOBARI_ROOT], uint32_t number,
                       const tobari_counter *counter);
int32_t tobari_u25_open(tobari_u25 *device, size_t bytes, const uint8_t root[TOBARI_ROOT], uint32_t number,
                        const tobari_counter *counter);
int32_t tobari_p17_open(tobari_p17 *device, size_t bytes, const uint8_t root[TOBARI_ROOT], uint32_t number,
                        const tobari_counter *counter);
int32_t tobari_u28_open(tobari_u28 *device, size_t bytes, const uint8_t root[TOBARI_ROOT], uint32_t number,
                        const tobari_counter *counter);
int32_t tobari_gcm_open(tobari_gcm *device, size_t bytes, const uint8_t root[TOBARI_ROOT], uint32_t number,
                        const tobari_counter *counter);

/* Writes a frame. After an error there is none, and the frame is as it was. */
int32_t tobari_p1_seal(tobari_p1 *device, const uint8_t readings[TOBARI_READINGS], uint8_t frame[TOBARI_P1_FRAME]);
int32_t tobari_u25_seal(tobari_u25 *device, const uint8_t readings[TOBARI_READINGS], uint8_t frame[TOBARI_U25_FRAME]);
int32_t tobari_gcm_seal(tobari_gcm *device, const uint8_t readings[TOBARI_READINGS], uint8_t frame[TOBARI_GCM_FRAME]);

/* The same, with a time. seconds: the beginning of the readings' slice of time, since 1970 (the fleet's schema says how long a slice is;
 * all readings of a frame are of one slice). sheet: 0, or the number of the part of a row that is too long for one frame. */
int32_t tobari_p17_seal_at(tobari_p17 *device, uint64_t seconds, uint16_t sheet, const uint8_t readings[TOBARI_READINGS],
                           uint8_t frame[TOBARI_P17_FRAME]);
int32_t tobari_u28_seal_at(tobari_u28 *device, uint64_t seconds, uint16_t sheet, const uint8_t readings[TOBARI_READINGS],
                           uint8_t frame[TOBARI_U28_FRAME]);

/* Wipes a device. */
void tobari_p1_close(tobari_p1 *device);
void tobari_u25_close(tobari_u25 *device);
void tobari_p17_close(tobari_p17 *device);
void tobari_u28_close(tobari_u28 *device);
void tobari_gcm_close(tobari_gcm *device);

#ifdef __cplusplus
}
#endif

#endif
