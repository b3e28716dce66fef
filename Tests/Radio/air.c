// Bluetooth controllers without a radio, and the air between them.
//
// Each is a Low Energy controller of Bluetooth 4.2 for the kernel (/dev/vhci): advertising, scanning, connections in both roles,
// data. They behave as real ones in points where BlueZ's btvirt does not: an advertiser is reported repeatedly; a controller has
// links to several others at once; the links of a reset controller break.
//
//     air COUNT FOLDER
//
// reads these files, all optional:
//     FOLDER/out-of-range   pairs of numbers, "0 2" a line: hci0 does not hear hci2
//     FOLDER/crowd          the number of distant devices that advertise bitchat's service and accept no connection
//     FOLDER/unplugged      numbers: these controllers are removed, and return when their number is removed
//
// Numbers and layouts are those of the Bluetooth core specification, volume 4, part E.
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

enum { MAX_CONTROLLERS = 8, MAX_LINKS = 32, MAX_ACCEPTED = 32, DATA_BYTES = 251, DATA_PACKETS = 8, AT_ONCE = 16 };
enum { COMMAND = 1, DATA = 2, EVENT = 4, VENDOR = 0xFF };
enum { DISCONNECTED = 0x05, VERSION_KNOWN = 0x0C, COMPLETE = 0x0E, STATUS = 0x0F, PACKETS_DONE = 0x13, LE_META = 0x3E };
enum { CONNECTED = 0x01, REPORT = 0x02, UPDATED = 0x03, FEATURES_KNOWN = 0x04 };
enum { DONE = 0x00, UNKNOWN_COMMAND = 0x01, UNKNOWN_LINK = 0x02, DISALLOWED = 0x0C, LOST = 0x08, LEFT_BY_PEER = 0x13, LEFT = 0x16 };
enum { CONNECTABLE = 0x00, DIRECTED = 0x01, SCANNABLE = 0x02, SCAN_RESPONSE = 0x04 };

static const int tick_milliseconds = 200;
static const int8_t near = -55, far = -85;

typedef struct {
    uint8_t type, bytes[6];
} address_t;

typedef struct {
    int descriptor;
    uint8_t public_address[6], random_address[6];
    uint8_t is_advertising, advertised_type, advertised_address_type;
    uint8_t advertised_count, advertised[31], response_count, response[31];
    uint8_t is_scanning, scans_actively, scan_policy;
    address_t accepted[MAX_ACCEPTED];
    int accepted_count;
    uint8_t is_connecting, connects_to_accepted, own_type;
    address_t wanted;
} controller_t;

// Both ends know it by the same handle.
typedef struct {
    uint16_t handle;
    int central, peripheral;
} link_t;

static controller_t controllers[MAX_CONTROLLERS];
static int count;
static link_t links[MAX_LINKS];
static uint16_t next_handle = 1;
static const char *folder;
static int deaf[MAX_CONTROLLERS][MAX_CONTROLLERS], unplugged[MAX_CONTROLLERS];
static unsigned crowd, crowd_next;

static void fail(const char *what) {
    fprintf(stderr, "air: %s: %s\n", what, strerror(errno));
    exit(1);
}

// Kernel side -------------------------------------------------------------------------------------------------------

// Zero where no host is attached: the controller is switched off.
static int give(int to, const uint8_t *packet, size_t size) {
    return write(controllers[to].descriptor, packet, size) >= 0;
}

// Links of a controller that is switched off end without a message; and it does not advertise.
static int is_listening(int index) {
    // The event of an unknown vendor.
    static const uint8_t nothing[] = {EVENT, VENDOR, 1, 0};
    return give(index, nothing, sizeof nothing);
}

static void tell(int to, uint8_t code, const void *parameters, size_t size) {
    uint8_t packet[3 + 255] = {EVENT, code, (uint8_t)size};
    memcpy(packet + 3, parameters, size);
    give(to, packet, 3 + size);
}

static void tell_le(int to, uint8_t code, const void *parameters, size_t size) {
    uint8_t whole[255] = {code};
    memcpy(whole + 1, parameters, size);
    tell(to, LE_META, whole, 1 + size);
}

static void complete(int to, uint16_t command, const void *parameters, size_t size) {
    uint8_t whole[255] = {1, (uint8_t)command, (uint8_t)(command >> 8)};
    memcpy(whole + 3, parameters, size);
    tell(to, COMPLETE, whole, 3 + size);
}

static void complete_with(int to, uint16_t command, uint8_t status) { complete(to, command, &status, 1); }

static void begin(int to, uint16_t command, uint8_t status) {
    uint8_t whole[] = {status, 1, (uint8_t)command, (uint8_t)(command >> 8)};
    tell(to, STATUS, whole, sizeof whole);
}

// Radio range --------------------------------------------------------------------------------------------------------

static FILE *look(const char *name) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return fopen(path, "r");
}

static void look_around(void) {
    memset(deaf, 0, sizeof deaf);
    memset(unplugged, 0, sizeof unplugged);
    FILE *file = look("out-of-range");
    int listener, advertiser, index;
    while (file && fscanf(file, "%d %d", &listener, &advertiser) == 2)
        if (listener >= 0 && listener < count && advertiser >= 0 && advertiser < count) deaf[listener][advertiser] = 1;
    if (file) fclose(file);
    crowd = 0;
    file = look("crowd");
    if (file && fscanf(file, "%u", &crowd) != 1) crowd = 0;
    if (file) fclose(file);
    file = look("unplugged");
    while (file && fscanf(file, "%d", &index) == 1)
        if (index >= 0 && index < count) unplugged[index] = 1;
    if (file) fclose(file);
}

static address_t own_address(int index, uint8_t type) {
    address_t address = {.type = type & 1};
    controller_t *controller = &controllers[index];
    memcpy(address.bytes, address.type ? controller->random_address : controller->public_address, 6);
    return address;
}

static int is_same(address_t one, address_t other) { return one.type == other.type && !memcmp(one.bytes, other.bytes, 6); }

static int accepts(int index, address_t address) {
    controller_t *controller = &controllers[index];
    for (int i = 0; i < controller->accepted_count; i++)
        if (is_same(controller->accepted[i], address)) return 1;
    return 0;
}

static void report(int to, uint8_t kind, address_t from, const uint8_t *data, uint8_t size, int8_t strength) {
    uint8_t whole[64] = {1, kind, from.type};
    memcpy(whole + 3, from.bytes, 6);
    whole[9] = size;
    memcpy(whole + 10, data, size);
    whole[10 + size] = (uint8_t)strength;
    tell_le(to, REPORT, whole, 11u + size);
}

static void report_all(int to) {
    controller_t *listener = &controllers[to];
    for (int index = 0; index < count; index++) {
        controller_t *other = &controllers[index];
        if (index == to || !other->is_advertising || deaf[to][index]) continue;
        address_t from = own_address(index, other->advertised_address_type);
        if ((listener->scan_policy & 1) && !accepts(to, from)) continue;
        report(to, other->advertised_type, from, other->advertised, other->advertised_count, near);
        int responds = other->advertised_type == CONNECTABLE || other->advertised_type == SCANNABLE;
        if (listener->scans_actively && responds)
            report(to, SCAN_RESPONSE, from, other->response, other->response_count, near);
    }
}

// Flags, and the 128-bit UUID of bitchat's service in little-endian order.
static const uint8_t crowd_data[] = {2,    0x01, 0x06, 17,   0x07, 0x5C, 0x4B, 0x3A, 0x2C, 0x1D, 0x8E,
                                     0x3F, 0x9B, 0x5A, 0x4C, 0x9E, 0x4A, 0x2D, 0x5E, 0x7B, 0xF4};

static void report_crowd(int to) {
    unsigned some = crowd < AT_ONCE ? crowd : AT_ONCE;
    for (unsigned i = 0; i < some; i++) {
        unsigned number = (crowd_next + i) % crowd;
        address_t from = {1, {(uint8_t)number, (uint8_t)(number >> 8), 0, 0, 0, 0xC0}};
        if (!(controllers[to].scan_policy & 1) || accepts(to, from))
            report(to, CONNECTABLE, from, crowd_data, sizeof crowd_data, far);
    }
}

// Links --------------------------------------------------------------------------------------------------------------

static link_t *find_link(int index, uint16_t handle) {
    for (int i = 0; i < MAX_LINKS; i++)
        if (links[i].handle == handle && handle && (links[i].central == index || links[i].peripheral == index)) return &links[i];
    return NULL;
}

static void end_link(link_t *link, int by, uint8_t reason_there, uint8_t reason_here) {
    int other = link->central == by ? link->peripheral : link->central;
    uint8_t whole[] = {DONE, (uint8_t)link->handle, (uint8_t)(link->handle >> 8), reason_there};
    link->handle = 0;
    tell(other, DISCONNECTED, whole, sizeof whole);
    whole[3] = reason_here;
    if (reason_here) tell(by, DISCONNECTED, whole, sizeof whole);
}

static void tell_connected(int to, uint8_t status, uint16_t handle, uint8_t role, address_t peer) {
    uint8_t whole[18] = {status, (uint8_t)handle, (uint8_t)(handle >> 8), role, peer.type};
    memcpy(whole + 5, peer.bytes, 6);
    // 50 ms, no latency, five seconds of silence.
    memcpy(whole + 11, (uint8_t[]){40, 0, 0, 0, 0xF4, 0x01, 0}, 7);
    tell_le(to, CONNECTED, whole, sizeof whole);
}

static int are_linked(int one, int other) {
    for (int i = 0; i < MAX_LINKS; i++)
        if (links[i].handle && ((links[i].central == one && links[i].peripheral == other) ||
                                (links[i].central == other && links[i].peripheral == one)))
            return 1;
    return 0;
}

static void reset(int index) {
    controller_t *controller = &controllers[index];
    controller_t fresh = {.descriptor = controller->descriptor};
    memcpy(fresh.public_address, controller->public_address, 6);
    *controller = fresh;
    for (int i = 0; i < MAX_LINKS; i++)
        if (links[i].handle && (links[i].central == index || links[i].peripheral == index)) end_link(&links[i], index, LOST, 0);
}

// A pending connection is established as soon as its target is received.
static void connect_if_heard(int index) {
    controller_t *central = &controllers[index];
    for (int other = 0; central->is_connecting && other < count; other++) {
        controller_t *peripheral = &controllers[other];
        if (other == index || !peripheral->is_advertising || peripheral->advertised_type > DIRECTED || deaf[index][other] ||
            are_linked(index, other))
            continue;
        address_t there = own_address(other, peripheral->advertised_address_type);
        if (central->connects_to_accepted ? !accepts(index, there) : !is_same(there, central->wanted)) continue;
        link_t *link = links;
        while (link < links + MAX_LINKS && link->handle) link++;
        if (link == links + MAX_LINKS) return;
        if (!is_listening(other)) {
            reset(other);
            continue;
        }
        *link = (link_t){next_handle, index, other};
        next_handle = next_handle < 0x0EFF ? next_handle + 1 : 1;
        central->is_connecting = 0;
        peripheral->is_advertising = 0;
        tell_connected(other, DONE, link->handle, 1, own_address(index, central->own_type));
        tell_connected(index, DONE, link->handle, 0, there);
    }
}

static void pass_on(int from, const uint8_t *packet, size_t size) {
    if (size < 5) return;
    uint16_t handle = (uint16_t)((packet[1] | packet[2] << 8) & 0x0FFF);
    link_t *link = find_link(from, handle);
    if (!link) return;
    uint8_t copy[5 + DATA_BYTES];
    if (size > sizeof copy) return;
    memcpy(copy, packet, size);
    // Hosts and controllers mark the start of a message differently.
    if (!(copy[2] & 0x30)) copy[2] |= 0x20;
    give(link->central == from ? link->peripheral : link->central, copy, size);
    uint8_t done[] = {1, packet[1], packet[2] & 0x0F, 1, 0};
    tell(from, PACKETS_DONE, done, sizeof done);
}

// Commands -----------------------------------------------------------------------------------------------------------

static const struct {
    uint8_t octet, bits;
} supported[] = {{0, 0x20},  {2, 0x80},  {5, 0xC0},  {14, 0x28}, {15, 0x02}, {25, 0xF7}, {26, 0xFF}, {27, 0xE7}, {28, 0x08}};

static void tell_supported(int index, uint16_t command) {
    uint8_t whole[65] = {DONE};
    for (size_t i = 0; i < sizeof supported / sizeof *supported; i++) whole[1 + supported[i].octet] = supported[i].bits;
    complete(index, command, whole, sizeof whole);
}

static void set_accepted(controller_t *controller, address_t address, int is_in) {
    for (int i = 0; i < controller->accepted_count; i++)
        if (is_same(controller->accepted[i], address)) controller->accepted[i--] = controller->accepted[--controller->accepted_count];
    if (is_in && controller->accepted_count < MAX_ACCEPTED) controller->accepted[controller->accepted_count++] = address;
}

static void read_data(uint8_t *into, uint8_t *into_count, const uint8_t *parameters) {
    *into_count = parameters[0] <= 31 ? parameters[0] : 31;
    memcpy(into, parameters + 1, *into_count);
}

// A command on a link: reports its status, and its completion at once.
static void on_link(int index, uint16_t command, const uint8_t *p) {
    uint16_t handle = (uint16_t)(p[0] | p[1] << 8);
    link_t *link = find_link(index, handle);
    begin(index, command, link ? DONE : UNKNOWN_LINK);
    if (!link) return;
    switch (command) {
    case 0x0406: end_link(link, index, LEFT_BY_PEER, LEFT); break;
    case 0x041D: tell(index, VERSION_KNOWN, (uint8_t[]){DONE, p[0], p[1], 8, 0xF1, 0x05, 0, 0}, 8); break;
    case 0x2013: {
        uint8_t updated[] = {DONE, p[0], p[1], p[4], p[5], p[6], p[7], p[8], p[9]};
        tell_le(link->central, UPDATED, updated, sizeof updated);
        tell_le(link->peripheral, UPDATED, updated, sizeof updated);
        break;
    }
    case 0x2016: tell_le(index, FEATURES_KNOWN, (uint8_t[11]){DONE, p[0], p[1]}, 11); break;
    }
}

static void obey(int index, uint16_t command, const uint8_t *p) {
    controller_t *controller = &controllers[index];
    switch (command) {
    case 0x0406: case 0x041D: case 0x2013: case 0x2016: return on_link(index, command, p);
    case 0x0C03: reset(index); break;
    case 0x1001: return complete(index, command, (uint8_t[]){DONE, 8, 0, 0, 8, 0xF1, 0x05, 0, 0}, 9);
    case 0x1002: return tell_supported(index, command);
    // Low Energy, and nothing else.
    case 0x1003: return complete(index, command, (uint8_t[9]){DONE, 0, 0, 0, 0, 0x60}, 9);
    case 0x1009: {
        uint8_t whole[7] = {DONE};
        memcpy(whole + 1, controller->public_address, 6);
        return complete(index, command, whole, sizeof whole);
    }
    case 0x2002: return complete(index, command, (uint8_t[]){DONE, DATA_BYTES, 0, DATA_PACKETS}, 4);
    case 0x2003: return complete(index, command, (uint8_t[9]){DONE}, 9);
    case 0x2005: memcpy(controller->random_address, p, 6); break;
    case 0x2006:
        if (controller->is_advertising) return complete_with(index, command, DISALLOWED);
        controller->advertised_type = p[4];
        controller->advertised_address_type = p[5];
        break;
    case 0x2007: return complete(index, command, (uint8_t[]){DONE, 0}, 2);
    case 0x2008: read_data(controller->advertised, &controller->advertised_count, p); break;
    case 0x2009: read_data(controller->response, &controller->response_count, p); break;
    case 0x200A: controller->is_advertising = p[0]; break;
    case 0x200B:
        if (controller->is_scanning) return complete_with(index, command, DISALLOWED);
        controller->scans_actively = p[0];
        controller->scan_policy = p[6];
        break;
    case 0x200C: controller->is_scanning = p[0]; break;
    case 0x200D:
        if (controller->is_connecting) return begin(index, command, DISALLOWED);
        controller->is_connecting = 1;
        controller->connects_to_accepted = p[4];
        controller->wanted.type = p[5] & 1;
        memcpy(controller->wanted.bytes, p + 6, 6);
        controller->own_type = p[12];
        begin(index, command, DONE);
        return connect_if_heard(index);
    case 0x200E: {
        if (!controller->is_connecting) return complete_with(index, command, DISALLOWED);
        controller->is_connecting = 0;
        complete_with(index, command, DONE);
        return tell_connected(index, UNKNOWN_LINK, 0, 0, controller->wanted);
    }
    case 0x200F: return complete(index, command, (uint8_t[]){DONE, MAX_ACCEPTED}, 2);
    case 0x2010: controller->accepted_count = 0; break;
    case 0x2011: case 0x2012: {
        address_t address = {.type = p[0] & 1};
        memcpy(address.bytes, p + 1, 6);
        set_accepted(controller, address, command == 0x2011);
        break;
    }
    case 0x2018: {
        uint8_t whole[9] = {DONE};
        for (int i = 1; i < 9; i++) whole[i] = (uint8_t)rand();
        return complete(index, command, whole, sizeof whole);
    }
    case 0x201C: return complete(index, command, (uint8_t[]){DONE, 255, 255, 255, 255, 255, 3, 0, 0}, 9);
    // Event masks, and commands without effect here.
    case 0x0C01: case 0x0C63: case 0x2001: break;
    default: return complete_with(index, command, UNKNOWN_COMMAND);
    }
    complete_with(index, command, DONE);
}

// Main ---------------------------------------------------------------------------------------------------------------

static void handle(int index) {
    // A command has at most 255 bytes of parameters; missing ones are zero.
    uint8_t packet[4096] = {0};
    ssize_t size = read(controllers[index].descriptor, packet, sizeof packet);
    if (size < 0 && errno != EAGAIN && errno != EINTR) fail("read");
    if (size >= 4 && packet[0] == COMMAND) obey(index, (uint16_t)(packet[1] | packet[2] << 8), packet + 4);
    if (size > 0 && packet[0] == DATA) pass_on(index, packet, (size_t)size);
}

static void find_silent_hosts(void) {
    for (int index = 0; index < count; index++)
        if (!is_listening(index)) reset(index);
}

static void open_controller(int index) {
    controller_t *controller = &controllers[index];
    memcpy(controller->public_address, (uint8_t[]){(uint8_t)index, 0, (uint8_t)index, 0x01, 0xAA, 0x00}, 6);
    controller->descriptor = open("/dev/vhci", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (controller->descriptor < 0 || write(controller->descriptor, (uint8_t[]){VENDOR, 0}, 2) != 2) fail("/dev/vhci");
}

static void close_controller(int index) {
    reset(index);
    close(controllers[index].descriptor);
    controllers[index].descriptor = -1;
}

static void plug(void) {
    for (int index = 0; index < count; index++) {
        int is_there = controllers[index].descriptor >= 0;
        if (is_there && unplugged[index]) close_controller(index);
        if (!is_there && !unplugged[index]) open_controller(index);
    }
}

static void tick(void) {
    look_around();
    plug();
    find_silent_hosts();
    for (int i = 0; i < MAX_LINKS; i++) {
        link_t *link = &links[i];
        if (link->handle && deaf[link->central][link->peripheral]) end_link(link, link->central, LOST, LOST);
    }
    for (int index = 0; index < count; index++) {
        connect_if_heard(index);
        if (!controllers[index].is_scanning) continue;
        report_all(index);
        if (crowd) report_crowd(index);
    }
    if (crowd) crowd_next = (crowd_next + AT_ONCE) % crowd;
}

static int64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

int main(int argument_count, char **arguments) {
    if (argument_count != 3 || (count = atoi(arguments[1])) < 1 || count > MAX_CONTROLLERS) return 2;
    folder = arguments[2];
    for (int index = 0; index < count; index++) open_controller(index);
    struct pollfd polled[MAX_CONTROLLERS];
    int64_t due = now();
    while (1) {
        for (int index = 0; index < count; index++) polled[index] = (struct pollfd){controllers[index].descriptor, POLLIN, 0};
        int64_t wait = due - now();
        if (poll(polled, (nfds_t)count, wait > 0 ? (int)wait : 0) < 0 && errno != EINTR) fail("poll");
        for (int index = 0; index < count; index++)
            if (polled[index].revents & POLLIN) handle(index);
        if (now() < due) continue;
        due = now() + tick_milliseconds;
        tick();
    }
}
