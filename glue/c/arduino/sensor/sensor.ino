/* A sensor for boards with an Arduino core and a Cortex-M4 or a larger processor: it encrypts 256 readings a minute,
 * and writes each frame to the serial port in hexadecimal digits. Replace `send` by your radio.
 *
 * Put tobari_device.h and libtobari_device_c.a where your core finds libraries (README.md beside this folder).
 *
 * EEPROM.put takes effect at once on most cores. With a core that has EEPROM.begin and EEPROM.commit, call begin in `setup`, and
 * commit in `store` and `first_start` after EEPROM.put; answer -1 if it fails. */
#include <Arduino.h>
#include <EEPROM.h>
#include <tobari_device.h>

/* From the sensor's token, in the factory. Nobody else may know ROOT. */
static const uint8_t ROOT[TOBARI_ROOT] = {7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7};
static const uint32_t NUMBER = 12;
/* The beginning of two slots for the counter. Erase them only together with a new key: see `first_start`. */
static const int COUNTER = 0;

/* A number and its complement: a write that was cut off leaves no valid slot, and the other slot has the number before. */
struct Slot {
    uint32_t number, complement;
};

static Slot slot_of(int place) {
    Slot slot = {0, 0};
    EEPROM.get(COUNTER + place * (int)sizeof(Slot), slot);
    return slot;
}

static bool valid(const Slot &slot) { return slot.number == ~slot.complement; }

/* The slot with the newest number, or -1. */
static int newest() {
    Slot first = slot_of(0), second = slot_of(1);
    if (!valid(first) && !valid(second)) return -1;
    if (!valid(second)) return 0;
    return !valid(first) || second.number > first.number ? 1 : 0;
}

static int32_t load(void *, uint32_t *next) {
    int place = newest();
    if (place < 0) return -1; /* no counter is not a counter of 0 */
    *next = slot_of(place).number;
    return 0;
}

static int32_t store(void *, uint32_t next) {
    int place = newest() == 0 ? 1 : 0;
    EEPROM.put(COUNTER + place * (int)sizeof(Slot), Slot{next, ~next});
    Slot kept = slot_of(place);
    return valid(kept) && kept.number == next ? 0 : -1;
}

/* Once, with a new key. */
static void first_start() {
    EEPROM.put(COUNTER, Slot{0, ~UINT32_C(0)});
    EEPROM.put(COUNTER + (int)sizeof(Slot), Slot{0, 0});
}

static tobari_u28 device;
static uint8_t readings[TOBARI_READINGS], frame[TOBARI_U28_FRAME];
/* Seconds since 1970: from a clock or the network. Here from the start of the board. */
static uint64_t now() { return UINT64_C(1798761600) + millis() / 1000; }

static void send(const uint8_t *bytes, size_t length) {
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < length; i++) {
        Serial.write(digits[bytes[i] >> 4]);
        Serial.write(digits[bytes[i] & 15]);
    }
    Serial.write('\n');
}

void setup() {
    Serial.begin(115200);
    /* Define it only in the program that stores a new ROOT: a counter that starts again under an old one repeats itself. */
#ifdef TOBARI_FIRST_START
    if (newest() < 0) first_start();
#else
    (void)first_start;
#endif
    const tobari_counter counter = {nullptr, load, store};
    if (tobari_u28_open(&device, sizeof device, ROOT, NUMBER, &counter) != TOBARI_OK) Serial.println("no counter");
}

void loop() {
    for (int i = 0; i < TOBARI_READINGS; i++) readings[i] = (uint8_t)(analogRead(0) >> 2);
    uint64_t time = now();
    if (tobari_u28_seal_at(&device, time - time % 60, 0, readings, frame) == TOBARI_OK) send(frame, sizeof frame);
    delay(60000);
}
