/* What the sketch uses of an Arduino core, on this machine: a stand-in for tests. */
#ifndef ARDUINO_STAND_IN
#define ARDUINO_STAND_IN
#include <cstddef>
#include <cstdint>
#include <string>

struct Port {
    std::string text;
    void begin(long) {}
    void write(char letter) { text += letter; }
    void println(const char *line) { text += line, text += '\n'; }
};
extern Port Serial;
inline int analogRead(int) { return 512; }
inline unsigned long millis() { return 61000; }
inline void delay(unsigned long) {}
#endif
