/* The sketch on this machine: it sends nothing without a counter, and no counter comes twice wherever the power fails. */
#include "../../arduino/sensor/sensor.ino"
#include <cstdio>
#include <cstdlib>

Port Serial;
Memory EEPROM;

static void check(bool good, const char *what) {
    if (good) return;
    std::fprintf(stderr, "expected %s, found something else: %.60s\n", what, Serial.text.c_str());
    std::exit(1);
}

/* A start, and so many frames, until the power fails. Counters are larger than `counter`; the last one is the answer. */
static long start(int frames, long left, long counter) {
    Serial.text.clear();
    EEPROM.left = left;
    setup();
    for (int i = 0; i < frames; i++) {
        loop();
        if (EEPROM.failed() || Serial.text.size() != 2 * TOBARI_U28_FRAME + 1) break;
        unsigned bytes[4];
        check(std::sscanf(Serial.text.c_str() + 8, "%2x%2x%2x%2x", bytes, bytes + 1, bytes + 2, bytes + 3) == 4, "digits");
        long next = (long)(bytes[0] | bytes[1] << 8 | bytes[2] << 16 | bytes[3] << 24);
        check(next > counter, "counters in their order, and new");
        counter = next;
        Serial.text.clear();
    }
    tobari_u28_close(&device);
    return counter;
}

int main() {
    for (int content : {0x00, 0xff, 0x5a}) {
        std::memset(EEPROM.bytes, content, sizeof EEPROM.bytes);
        check(start(1, -1, -1) == -1 && Serial.text == "no counter\n", "a refusal without a counter");
    }
    /* a valid counter stays at a second first start */
    EEPROM.left = -1;
    first_start();
    store(nullptr, 64);
    setup();
    uint32_t kept = 0;
    check(load(nullptr, &kept) == 0 && kept == 64, "the counter that was there");
    tobari_u28_close(&device);
    /* the first start, whose power fails anywhere, and again */
    for (long left = 0; left < 16; left++) {
        EEPROM.left = left;
        first_start();
    }
    EEPROM.left = -1;
    first_start();
    long last = -1;
    for (int life = 0; life < 4000; life++) {
        long before = last;
        last = start(1 + life % 150, life % 5 == 0 ? -1 : life % 21, last);
        /* without a power failure a start sends */
        if (life % 5 == 0) check(last > before, "frames");
    }
    check(last > 100000, "many frames");
    std::printf("the sketch sent counters up to %ld over 4000 starts, and none twice\n", last);
    return 0;
}
