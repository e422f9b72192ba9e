/* EEPROM on this machine, whose power fails after some bytes: a stand-in for tests. */
#ifndef EEPROM_STAND_IN
#define EEPROM_STAND_IN
#include <cstdint>
#include <cstring>

struct Memory {
    uint8_t bytes[64];
    long left; /* bytes that are still written; negative: all */
    bool failed() const { return left == 0; }
    template <typename T> T &get(int at, T &value) { return *(T *)std::memcpy(&value, bytes + at, sizeof(T)); }
    template <typename T> const T &put(int at, const T &value) {
        for (size_t i = 0; i < sizeof(T); i++) {
            if (failed()) break;
            left -= left > 0;
            bytes[at + (int)i] = ((const uint8_t *)&value)[i];
        }
        return value;
    }
};
extern Memory EEPROM;
#endif
