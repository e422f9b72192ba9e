/* The library, from C: frames are those of the vectors (vectors/device/v1/frames.txt and v2, the two words), what is wrong is refused, and no call takes 8 KiB of stack.
 *
 * Stack: a thread runs on memory that was painted before; what it changed, less what a thread that does nothing changes, is what a call takes. */
#define _POSIX_C_SOURCE 200809L
#include "tobari_device.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STACK ((size_t)256 << 10)
#define MOST ((size_t)8 << 10)

static union {
    tobari_p1 p1;
    tobari_u25 u25;
    tobari_gcm gcm;
    tobari_p17 p17;
    tobari_u28 u28;
} device;
static uint8_t root[TOBARI_ROOT], readings[TOBARI_READINGS], frame[TOBARI_U28_FRAME], expected[TOBARI_U28_FRAME];
static uint32_t kept, fails;
static uint64_t seconds;
static uint16_t sheet;

static void check(int good, const char *what) {
    if (good) return;
    fprintf(stderr, "expected %s, found something else\n", what);
    exit(1);
}

static int32_t load(void *context, uint32_t *next) {
    *next = *(uint32_t *)context;
    return 0;
}

static int32_t store(void *context, uint32_t next) {
    if (fails) return 1;
    *(uint32_t *)context = next;
    return 0;
}

static const tobari_counter counter = {&kept, load, store};

typedef struct {
    const char *name;
    size_t frame, bytes;
    int32_t (*open)(uint32_t number, size_t bytes);
    int32_t (*seal)(void);
    void (*close)(void);
} profile;

static int32_t p1_open(uint32_t number, size_t bytes) { return tobari_p1_open(&device.p1, bytes, root, number, &counter); }
static int32_t p1_seal(void) { return tobari_p1_seal(&device.p1, readings, frame); }
static void p1_close(void) { tobari_p1_close(&device.p1); }
static int32_t u25_open(uint32_t number, size_t bytes) { return tobari_u25_open(&device.u25, bytes, root, number, &counter); }
static int32_t u25_seal(void) { return tobari_u25_seal(&device.u25, readings, frame); }
static void u25_close(void) { tobari_u25_close(&device.u25); }
static int32_t gcm_open(uint32_t number, size_t bytes) { return tobari_gcm_open(&device.gcm, bytes, root, number, &counter); }
static int32_t gcm_seal(void) { return tobari_gcm_seal(&device.gcm, readings, frame); }
static void gcm_close(void) { tobari_gcm_close(&device.gcm); }

static int32_t p17_open(uint32_t number, size_t bytes) { return tobari_p17_open(&device.p17, bytes, root, number, &counter); }
static int32_t p17_seal(void) { return tobari_p17_seal_at(&device.p17, seconds, sheet, readings, frame); }
static void p17_close(void) { tobari_p17_close(&device.p17); }
static int32_t u28_open(uint32_t number, size_t bytes) { return tobari_u28_open(&device.u28, bytes, root, number, &counter); }
static int32_t u28_seal(void) { return tobari_u28_seal_at(&device.u28, seconds, sheet, readings, frame); }
static void u28_close(void) { tobari_u28_close(&device.u28); }

#define PROFILES 5
static const profile profiles[PROFILES] = {
    {"P1", TOBARI_P1_FRAME, sizeof(tobari_p1), p1_open, p1_seal, p1_close},
    {"U25", TOBARI_U25_FRAME, sizeof(tobari_u25), u25_open, u25_seal, u25_close},
    {"GCM", TOBARI_GCM_FRAME, sizeof(tobari_gcm), gcm_open, gcm_seal, gcm_close},
    {"P17", TOBARI_P17_FRAME, sizeof(tobari_p17), p17_open, p17_seal, p17_close},
    {"U28", TOBARI_U28_FRAME, sizeof(tobari_u28), u28_open, u28_seal, u28_close},
};

static void bytes_of(const char *hex, uint8_t *bytes, size_t length) {
    check(hex != NULL && strlen(hex) == 2 * length, "hexadecimal digits of the right length");
    for (size_t i = 0; i < length; i++) {
        unsigned value;
        check(sscanf(hex + 2 * i, "%2x", &value) == 1, "hexadecimal digits");
        bytes[i] = (uint8_t)value;
    }
}

/* The frames of a version. */
static int vectors(const char *path, int version) {
    static char line[8192];
    int seen = 0;
    FILE *file = fopen(path, "r");
    check(file != NULL, "a file of vectors");
    while (fgets(line, sizeof line, file) != NULL) {
        if (line[0] == '#') continue;
        line[strcspn(line, "\r\n")] = 0;
        const char *name = strtok(line, " ");
        check(name != NULL, "a profile");
        const profile *of = NULL;
        for (int i = 0; i < PROFILES; i++)
            if (strcmp(profiles[i].name, name) == 0) of = &profiles[i];
        check(of != NULL, "a profile that is known");
        bytes_of(strtok(NULL, " "), root, sizeof root);
        uint32_t number = (uint32_t)strtoul(strtok(NULL, " "), NULL, 10);
        kept = (uint32_t)strtoul(strtok(NULL, " "), NULL, 10);
        uint32_t first = kept;
        if (version == 2) {
            seconds = strtoull(strtok(NULL, " "), NULL, 10);
            sheet = (uint16_t)strtoul(strtok(NULL, " "), NULL, 10);
        }
        bytes_of(strtok(NULL, " "), readings, sizeof readings);
        bytes_of(strtok(NULL, " "), expected, of->frame);
        check(of->open(number, of->bytes) == TOBARI_OK && of->seal() == TOBARI_OK, "a frame");
        check(memcmp(frame, expected, of->frame) == 0, "the bytes of the vector");
        check(kept > first && kept <= TOBARI_FRAME_LIMIT, "a counter that was stored before it was used");
        of->close();
        seen++;
    }
    fclose(file);
    return seen;
}

static void refusals(const profile *of) {
    kept = 0;
    check(of->seal() == TOBARI_CLOSED, "TOBARI_CLOSED before open");
    check(of->open(1, of->bytes - 1) == TOBARI_SIZE, "TOBARI_SIZE");
    check(of->open(UINT32_C(1) << 24, of->bytes) == TOBARI_NUMBER, "TOBARI_NUMBER");
    check(of->seal() == TOBARI_CLOSED, "TOBARI_CLOSED after an open that failed");
    fails = 1;
    check(of->open(1, of->bytes) == TOBARI_OK && of->seal() == TOBARI_STORE, "TOBARI_STORE");
    fails = 0;
    check(of->seal() == TOBARI_OK, "a frame after storage works again");
    of->close();
    check(of->seal() == TOBARI_CLOSED, "TOBARI_CLOSED after close");
    kept = TOBARI_FRAME_LIMIT - 1;
    check(of->open(1, of->bytes) == TOBARI_OK && of->seal() == TOBARI_OK, "the last frame of a key");
    check(of->seal() == TOBARI_EXHAUSTED, "TOBARI_EXHAUSTED");
    of->close();
    for (size_t i = 0; i < of->bytes; i++) check(((const uint8_t *)&device)[i] == 0, "a device that is wiped");
}

static void *nothing(void *of) { return of; }
static void *opens(void *of) { return (void *)(intptr_t)((const profile *)of)->open(1, ((const profile *)of)->bytes); }
static void *seals(void *of) { return (void *)(intptr_t)((const profile *)of)->seal(); }

/* Bytes of a painted stack that a thread changed, from its top. */
static size_t used(void *(*work)(void *), const profile *of) {
    void *stack;
    check(posix_memalign(&stack, 4096, STACK) == 0, "memory");
    memset(stack, 0xa5, STACK);
    pthread_attr_t attributes;
    pthread_t thread;
    check(pthread_attr_init(&attributes) == 0 && pthread_attr_setstack(&attributes, stack, STACK) == 0, "a stack");
    check(pthread_create(&thread, &attributes, work, (void *)of) == 0, "a thread");
    void *answer;
    check(pthread_join(thread, &answer) == 0 && (answer == NULL || work == nothing), "TOBARI_OK");
    pthread_attr_destroy(&attributes);
    size_t clean = 0;
    while (clean < STACK && ((uint8_t *)stack)[clean] == 0xa5) clean++;
    free(stack);
    return STACK - clean;
}

int main(int count, char **words) {
    check(count == 3, "two files of vectors");
    check(tobari_p1_open(NULL, sizeof(tobari_p1), root, 1, &counter) == TOBARI_NULL, "TOBARI_NULL");
    check(tobari_p1_open(&device.p1, sizeof(tobari_p1), NULL, 1, &counter) == TOBARI_NULL, "TOBARI_NULL");
    check(tobari_p1_open(&device.p1, sizeof(tobari_p1), root, 1, NULL) == TOBARI_NULL, "TOBARI_NULL");
    check(tobari_p1_seal(&device.p1, NULL, frame) == TOBARI_NULL, "TOBARI_NULL");
    tobari_p1_close(NULL);
    for (int i = 0; i < PROFILES; i++) refusals(&profiles[i]);
    int seen = vectors(words[1], 1) + vectors(words[2], 2);
    check(seen == 15, "fifteen vectors");
    check(tobari_u28_seal_at(&device.u28, UINT64_C(1) << 40, 0, readings, frame) == TOBARI_TIME, "TOBARI_TIME");
    check(tobari_p17_seal_at(&device.p17, 0, 4096, readings, frame) == TOBARI_TIME, "TOBARI_TIME");
    seconds = sheet = 0;
    for (int i = 0; i < PROFILES; i++) {
        const profile *of = &profiles[i];
        kept = 0;
        size_t idle = used(nothing, of), opening = used(opens, of), sealing = used(seals, of);
        check(sealing > idle && opening > idle, "work that takes stack");
        printf("%s: %zu bytes of stack to open, %zu to seal\n", of->name, opening - idle, sealing - idle);
        check(sealing - idle < MOST, "less than 8 KiB of stack to seal");
        check(opening - idle < MOST, "less than 8 KiB of stack to open");
        of->close();
    }
    printf("%d frames are those of the vectors\n", seen);
    return 0;
}
