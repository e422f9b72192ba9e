/* Seals a file of 256 readings as a frame.
 *
 *     seal ROOT-FILE NUMBER COUNTER-FILE READINGS-FILE FRAME-FILE
 *
 * The counter's file is the device's storage: it is replaced and flushed before a counter is used. A file that is missing is an error; a new key's file has "0".
 */
#define _POSIX_C_SOURCE 200809L
#include "tobari_device.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int32_t load(void *context, uint32_t *next) {
    FILE *file = fopen(context, "r");
    unsigned long found = 0;
    int read = file != NULL && fscanf(file, "%lu", &found) == 1 && found <= TOBARI_FRAME_LIMIT;
    if (file != NULL) fclose(file);
    *next = (uint32_t)found;
    return read ? 0 : -1;
}

static int flushed_folder(const char *path) {
    char folder[4096];
    const char *end = strrchr(path, '/');
    size_t length = end == NULL ? 0 : (size_t)(end - path);
    if (length >= sizeof folder) return 0;
    memcpy(folder, path, length);
    folder[length] = 0;
    int file = open(length == 0 ? (end == NULL ? "." : "/") : folder, O_RDONLY);
    int done = file >= 0 && fsync(file) == 0;
    if (file >= 0) close(file);
    return done;
}

static int32_t store(void *context, uint32_t next) {
    char name[4096];
    int length = snprintf(name, sizeof name, "%s.new", (const char *)context);
    if (length < 0 || (size_t)length >= sizeof name) return -1;
    FILE *file = fopen(name, "w");
    if (file == NULL) return -1;
    int written = fprintf(file, "%lu\n", (unsigned long)next) > 0 && fflush(file) == 0 && fsync(fileno(file)) == 0;
    written = fclose(file) == 0 && written;
    return written && rename(name, context) == 0 && flushed_folder(context) ? 0 : -1;
}

static int failed(const char *what) {
    fprintf(stderr, "seal: %s\n", what);
    return 1;
}

/* A file of so many bytes. */
static int whole(const char *path, uint8_t *bytes, size_t length) {
    FILE *file = fopen(path, "rb");
    if (file == NULL) return 0;
    int read = fread(bytes, 1, length, file) == length && fgetc(file) == EOF;
    fclose(file);
    return read;
}

int main(int count, char **words) {
    static tobari_u25 device;
    uint8_t root[TOBARI_ROOT], readings[TOBARI_READINGS], frame[TOBARI_U25_FRAME];
    if (count != 6) return failed("expected ROOT-FILE NUMBER COUNTER-FILE READINGS-FILE FRAME-FILE"), 2;
    if (!whole(words[1], root, sizeof root)) return failed("expected a root of 32 bytes");
    if (!whole(words[4], readings, sizeof readings)) return failed("expected 256 readings");
    char *end;
    errno = 0;
    unsigned long number = strtoul(words[2], &end, 10);
    if (errno != 0 || *end != 0 || number >= 1ul << 24) return failed("expected a number below 2^24"), 2;
    tobari_counter counter = {words[3], load, store};
    int32_t answer = tobari_u25_open(&device, sizeof device, root, (uint32_t)number, &counter);
    if (answer != TOBARI_OK) return failed("the device does not open: has it a counter?");
    answer = tobari_u25_seal(&device, readings, frame);
    tobari_u25_close(&device);
    if (answer != TOBARI_OK) return failed("no frame: its counter cannot be stored, or the key is used up");
    FILE *file = fopen(words[5], "wb");
    int written = file != NULL && fwrite(frame, 1, sizeof frame, file) == sizeof frame;
    if (file == NULL || fclose(file) != 0 || !written) return failed("the frame cannot be written");
    return 0;
}
