/*
 * A stand-in for NVIDIA's management library, with the real names and layouts of what the agent calls.
 *
 * What it plays is in the file `scenario` beside it, read anew whenever cards are counted. One word and numbers a line:
 *
 *   cards N         so many cards
 *   mig C           card C has two slices, number 0 and 2
 *   lost C          card C has fallen off the bus: every call about it fails
 *   lost_later C    card C gives its handle, and fails from then on
 *   unknown C       the driver does not know why card C fails
 *   na C            card C supports nothing, or says so by a value with all bits set
 *   strange C       card C gives numbers that cannot be
 *   hang C MS       card C takes so long to tell its power
 *   user C PID      of all processes only this one is on card C, and has 70 percent of it
 *   idle C          nobody is on card C, and nothing runs
 *   xid C X         card C reports error X, once
 *   broken          the driver does not fit the library
 *   unloaded        the driver has gone after the library was opened
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OK = 0, UNINITIALIZED = 1, INVALID = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, TOO_SMALL = 7, NOT_LOADED = 9,
       TIMEOUT = 10, LOST = 15, MISMATCH = 18, UNKNOWN = 999 };
#define CARDS 16
#define GIB (1024ull * 1024 * 1024)

typedef unsigned long long u64;
typedef struct card {
    unsigned index, slice; /* slice is 0 for the card itself, or one more than the slice's number */
    int mig, lost, lost_later, unknown, na, strange, hang_ms, xid, user, idle;
    struct card *parent;
    struct card *slices[3];
} card;

typedef struct { char legacy[16]; unsigned domain, bus, device, id, subsystem; char bus_id[32]; } pci_info;
typedef struct { unsigned gpu, memory; } utilization;
typedef struct { unsigned version; u64 total, reserved, free, used; } memory_v2;
typedef struct { unsigned pid; u64 memory; unsigned gpu_instance, compute_instance; } process;
typedef struct { unsigned pid; u64 time; unsigned sm, mem, enc, dec; } sample;
typedef struct { card *device; u64 type, data; unsigned gpu_instance, compute_instance; } event;

static card cards[CARDS], slices[CARDS][3];
static unsigned count;
static int initialized, broken, unloaded;
static unsigned registered; /* a bit for each card */

static void read_scenario(void)
{
    Dl_info self;
    char path[4096], line[256], word[64];
    dladdr((void *)read_scenario, &self);
    snprintf(path, sizeof path, "%s", self.dli_fname);
    strcpy(strrchr(path, '/'), "/scenario");
    FILE *file = fopen(path, "r");
    memset(cards, 0, sizeof cards);
    broken = unloaded = 0;
    count = 0;
    while (file && fgets(line, sizeof line, file)) {
        unsigned a = 0;
        int b = 0;
        if (sscanf(line, "%63s %u %d", word, &a, &b) < 1)
            continue;
        card *one = &cards[a % CARDS];
        if (!strcmp(word, "cards")) count = a;
        if (!strcmp(word, "mig")) one->mig = 1;
        if (!strcmp(word, "lost")) one->lost = 1;
        if (!strcmp(word, "lost_later")) one->lost_later = 1;
        if (!strcmp(word, "unknown")) one->unknown = 1;
        if (!strcmp(word, "na")) one->na = 1;
        if (!strcmp(word, "strange")) one->strange = 1;
        if (!strcmp(word, "hang")) one->hang_ms = b;
        if (!strcmp(word, "user")) one->user = b;
        if (!strcmp(word, "idle")) one->idle = 1;
        if (!strcmp(word, "xid")) one->xid = b;
        if (!strcmp(word, "broken")) broken = 1;
        if (!strcmp(word, "unloaded")) unloaded = 1;
    }
    if (file)
        fclose(file);
    for (unsigned i = 0; i < CARDS; i++) {
        cards[i].index = i;
        for (unsigned s = 0; cards[i].mig && s < 3; s += 2) {
            slices[i][s] = (card){ .index = i, .slice = s + 1, .parent = &cards[i] };
            cards[i].slices[s] = &slices[i][s];
        }
    }
}

/* What every call about a card says first. */
static int check(const card *one)
{
    if (!initialized) return UNINITIALIZED;
    int is_card = one >= cards && one < cards + CARDS;
    if (!is_card && (one < slices[0] || one >= slices[CARDS])) return INVALID;
    if (one->lost || one->lost_later) return LOST;
    if (one->unknown) return UNKNOWN;
    return OK;
}
#define CHECK(one) do { int code = check(one); if (code) return code; } while (0)
/* Calls that a card or slice need not support. */
#define CHECK_SUPPORTED(one) do { CHECK(one); if ((one)->na || (one)->slice) return NOT_SUPPORTED; } while (0)

int nvmlInit_v2(void)
{
    read_scenario();
    if (broken) return MISMATCH;
    initialized = 1;
    return OK;
}

int nvmlShutdown(void)
{
    initialized = 0;
    registered = 0;
    return OK;
}

int nvmlSystemGetDriverVersion(char *text, unsigned size)
{
    snprintf(text, size, "550.54.15");
    return OK;
}

int nvmlDeviceGetCount_v2(unsigned *n)
{
    read_scenario();
    if (unloaded) return NOT_LOADED;
    *n = count;
    return OK;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, card **one)
{
    if (index >= count) return INVALID;
    if (cards[index].lost) return LOST;
    *one = &cards[index];
    return OK;
}

int nvmlDeviceGetIndex(card *one, unsigned *index) { CHECK(one); *index = one->index; return OK; }

int nvmlDeviceGetUUID(card *one, char *text, unsigned size)
{
    CHECK(one);
    if (one->slice)
        snprintf(text, size, "MIG-%08x-0000-0000-0000-%012x", one->index, one->slice - 1);
    else
        snprintf(text, size, "GPU-%08x-0000-0000-0000-000000000000", one->index);
    return OK;
}

int nvmlDeviceGetName(card *one, char *text, unsigned size)
{
    CHECK(one);
    snprintf(text, size, "NVIDIA H100%s", one->slice ? " MIG 1g.10gb" : "");
    return OK;
}

int nvmlDeviceGetPciInfo_v3(card *one, pci_info *info)
{
    CHECK_SUPPORTED(one);
    memset(info, 0, sizeof *info);
    info->bus = 0x1b + one->index;
    snprintf(info->bus_id, sizeof info->bus_id, "00000000:%02X:00.0", info->bus);
    return OK;
}

int nvmlDeviceGetMemoryInfo_v2(card *one, memory_v2 *memory)
{
    CHECK(one);
    if (memory->version != (sizeof *memory | 2u << 24)) return 25;
    if (one->na) return NOT_SUPPORTED;
    memory->total = one->slice ? 10 * GIB : 80 * GIB;
    memory->used = one->strange ? ~0ull : one->slice ? one->slice * GIB : (1 + one->index) * GIB;
    memory->free = memory->total - memory->used;
    return OK;
}

int nvmlDeviceGetUtilizationRates(card *one, utilization *rates)
{
    CHECK_SUPPORTED(one);
    if (one->mig) return NOT_SUPPORTED;
    rates->gpu = one->strange ? ~0u : one->idle ? 0 : one->user ? 70 : 50 + one->index;
    rates->memory = one->strange ? 101 : one->idle ? 0 : 20 + one->index;
    return OK;
}

int nvmlDeviceGetPowerUsage(card *one, unsigned *milliwatts)
{
    CHECK(one);
    usleep(1000 * one->hang_ms);
    *milliwatts = one->na ? ~0u : 300000 + one->index;
    return one->slice ? NOT_SUPPORTED : OK;
}

int nvmlDeviceGetEnforcedPowerLimit(card *one, unsigned *limit) { CHECK_SUPPORTED(one); *limit = 700000; return OK; }

int nvmlDeviceGetTotalEnergyConsumption(card *one, u64 *energy)
{
    CHECK(one);
    *energy = one->na ? ~0ull : 123456789012ull;
    return OK;
}

int nvmlDeviceGetTemperature(card *one, int sensor, unsigned *degrees)
{
    CHECK_SUPPORTED(one);
    if (sensor != 0) return INVALID;
    *degrees = one->strange ? ~0u : 61;
    return OK;
}

int nvmlDeviceGetClockInfo(card *one, int clock, unsigned *mhz)
{
    CHECK_SUPPORTED(one);
    *mhz = clock == 0 ? 1980 : clock == 2 ? 2619 : 1;
    return OK;
}

int nvmlDeviceGetTotalEccErrors(card *one, int kind, int counter, u64 *errors)
{
    CHECK_SUPPORTED(one);
    if (counter != 0) return INVALID; /* since the driver was loaded */
    *errors = kind == 0 ? 3 : 1;
    return OK;
}

int nvmlDeviceGetPerformanceState(card *one, int *state) { CHECK(one); *state = one->na ? 32 : 2; return OK; }
int nvmlDeviceGetFanSpeed_v2(card *one, unsigned fan, unsigned *speed)
{
    CHECK_SUPPORTED(one);
    /* What some drivers say of a card without a fan that answers nothing else. */
    if (one->strange || fan) return UNKNOWN;
    *speed = 33;
    return OK;
}

int nvmlDeviceGetPcieThroughput(card *one, int counter, unsigned *kilobytes)
{
    CHECK_SUPPORTED(one);
    *kilobytes = counter == 1 ? 2000 : 1000; /* 0 is sent by the card */
    return OK;
}

int nvmlDeviceGetMigMode(card *one, unsigned *current, unsigned *pending)
{
    CHECK_SUPPORTED(one);
    *current = *pending = one->mig;
    return OK;
}

int nvmlDeviceGetMaxMigDeviceCount(card *one, unsigned *n) { CHECK(one); *n = one->mig ? 7 : 0; return OK; }

int nvmlDeviceGetMigDeviceHandleByIndex(card *one, unsigned index, card **slice)
{
    CHECK(one);
    if (index >= 3 || !one->slices[index]) return NOT_FOUND;
    *slice = one->slices[index];
    return OK;
}

static int give(process *list, unsigned n, unsigned *size, process *out)
{
    unsigned room = *size;
    *size = n;
    if (n == 0) return OK;
    if (!out || room < n) return TOO_SMALL;
    memcpy(out, list, n * sizeof *list);
    return OK;
}

/* Of card C the process 1000+C computes. It draws as well, and so does 2000+C, of which the memory is not known. */
int nvmlDeviceGetComputeRunningProcesses_v3(card *one, unsigned *size, process *out)
{
    CHECK(one);
    unsigned pid = one->user ? one->user : 1000 + one->index + 100 * one->slice;
    process list[] = { { pid, 5 * GIB, ~0u, ~0u } };
    return give(list, one->na || one->idle ? 0 : 1, size, out);
}

int nvmlDeviceGetGraphicsRunningProcesses_v3(card *one, unsigned *size, process *out)
{
    CHECK_SUPPORTED(one);
    process list[] = { { 1000 + one->index, 5 * GIB, ~0u, ~0u }, { 2000 + one->index, ~0ull, ~0u, ~0u } };
    return give(list, one->user || one->idle ? 0 : 2, size, out);
}

int nvmlDeviceGetMPSComputeRunningProcesses_v3(card *one, unsigned *size, process *out)
{
    CHECK_SUPPORTED(one);
    process list[] = { { 3000 + one->index, GIB, ~0u, ~0u } };
    return give(list, one->user || one->idle ? 0 : 1, size, out);
}

/* The samples of a second each: 40 and 60 percent at first, then 80. */
int nvmlDeviceGetProcessUtilization(card *one, sample *out, unsigned *size, u64 since)
{
    CHECK_SUPPORTED(one);
    unsigned pid = 1000 + one->index, room = *size;
    sample all[] = { { pid, 1000000, 40 }, { pid, 2000000, 60 }, { 9999, 2000000, 1 } };
    sample later[] = { { pid, 3000000, 80 } };
    sample only[] = { { one->user, since + 1000000, 70 } };
    if (one->user) {
        *size = 1;
        if (!out || room < 1) return TOO_SMALL;
        *out = *only;
        return OK;
    }
    unsigned n = one->idle ? 0 : since == 0 ? 3 : since == 2000000 ? 1 : 0;
    *size = n;
    if (n == 0) return NOT_FOUND;
    if (!out || room < n) return TOO_SMALL;
    memcpy(out, since == 0 ? all : later, n * sizeof *all);
    return OK;
}

int nvmlEventSetCreate(void **set)
{
    *set = &registered;
    return OK;
}

int nvmlEventSetFree(void *set)
{
    (void)set;
    return OK;
}

int nvmlDeviceRegisterEvents(card *one, u64 types, void *set)
{
    CHECK_SUPPORTED(one);
    if (types != 8 || set != &registered) return INVALID;
    registered |= 1u << one->index;
    return OK;
}

int nvmlEventSetWait_v2(void *set, event *out, unsigned timeout_ms)
{
    if (set != &registered || timeout_ms != 0) return INVALID;
    for (unsigned i = 0; i < count; i++)
        if (cards[i].xid && registered & 1u << i) {
            *out = (event){ &cards[i], 8, cards[i].xid, ~0u, ~0u };
            cards[i].xid = 0;
            return OK;
        }
    return TIMEOUT;
}
