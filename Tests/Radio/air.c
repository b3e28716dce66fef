// Bluetooth controllers without a radio, and the air between them.
//
// Each is a Low Energy controller of Bluetooth 4.2 for the kernel (/dev/vhci): advertising, scanning, connections in both roles,
// data. They behave as real ones in points where BlueZ's btvirt does not: an advertiser is reported repeatedly; a controller has
// links to several others at once; the links of a reset controller break. Filter_Duplicates is ignored: each advertiser is
// reported every 200 ms.
//
//     air COUNT FOLDER
//
// reads these files, all optional, five times a second:
//     FOLDER/out-of-range   pairs of numbers, "0 2" a line: hci0 does not receive hci2, and their link breaks
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

enum { MAX_CONTROLLERS = 8, MAX_LINKS = 32, MAX_ACCEPT_LIST = 32, DATA_BYTES = 251, DATA_PACKETS = 8 };
enum { MAX_CROWD_REPORTS_PER_TICK = 16 };
enum { COMMAND = 1, DATA = 2, EVENT = 4, VENDOR = 0xFF };
// Commands (sections 7.1 to 7.8).
enum {
    HCI_DISCONNECT = 0x0406, HCI_READ_REMOTE_VERSION = 0x041D, HCI_SET_EVENT_MASK = 0x0C01, HCI_RESET = 0x0C03,
    HCI_SET_EVENT_MASK_PAGE_2 = 0x0C63, HCI_READ_LOCAL_VERSION = 0x1001, HCI_READ_SUPPORTED_COMMANDS = 0x1002,
    HCI_READ_SUPPORTED_FEATURES = 0x1003, HCI_READ_ADDRESS = 0x1009, LE_SET_EVENT_MASK = 0x2001,
    LE_READ_BUFFER_SIZE = 0x2002, LE_READ_LOCAL_FEATURES = 0x2003, LE_SET_RANDOM_ADDRESS = 0x2005,
    LE_SET_ADVERTISING_PARAMETERS = 0x2006, LE_READ_ADVERTISING_POWER = 0x2007, LE_SET_ADVERTISING_DATA = 0x2008,
    LE_SET_SCAN_RESPONSE_DATA = 0x2009, LE_SET_ADVERTISING_ENABLE = 0x200A, LE_SET_SCAN_PARAMETERS = 0x200B,
    LE_SET_SCAN_ENABLE = 0x200C, LE_CREATE_CONNECTION = 0x200D, LE_CREATE_CONNECTION_CANCEL = 0x200E,
    LE_READ_ACCEPT_LIST_SIZE = 0x200F, LE_CLEAR_ACCEPT_LIST = 0x2010, LE_ADD_TO_ACCEPT_LIST = 0x2011,
    LE_REMOVE_FROM_ACCEPT_LIST = 0x2012, LE_UPDATE_CONNECTION = 0x2013, LE_READ_REMOTE_FEATURES = 0x2016,
    LE_RANDOM = 0x2018, LE_READ_SUPPORTED_STATES = 0x201C,
};
enum {
    EVENT_DISCONNECTION_COMPLETE = 0x05,
    EVENT_REMOTE_VERSION = 0x0C,
    EVENT_COMMAND_COMPLETE = 0x0E,
    EVENT_COMMAND_STATUS = 0x0F,
    EVENT_COMPLETED_PACKETS = 0x13,
    EVENT_LE_META = 0x3E,
};
enum {
    LE_CONNECTION_COMPLETE = 0x01,
    LE_ADVERTISING_REPORT = 0x02,
    LE_CONNECTION_UPDATE_COMPLETE = 0x03,
    LE_REMOTE_FEATURES = 0x04,
};
// Status and reason codes (volume 1, part F).
enum {
    SUCCESS = 0x00,
    UNKNOWN_COMMAND = 0x01,
    UNKNOWN_CONNECTION = 0x02,
    MEMORY_CAPACITY_EXCEEDED = 0x07,
    CONNECTION_TIMEOUT = 0x08,
    COMMAND_DISALLOWED = 0x0C,
    REMOTE_USER_TERMINATED = 0x13,
    LOCAL_HOST_TERMINATED = 0x16,
};
enum { ADV_IND = 0x00, ADV_DIRECT_IND = 0x01, ADV_SCAN_IND = 0x02, SCAN_RSP = 0x04, ADV_DIRECT_IND_LOW_DUTY = 0x04 };

static const int tick_milliseconds = 200;
// In dBm.
static const int8_t near_rssi = -55, far_rssi = -85;

typedef struct {
    uint8_t type, bytes[6];
} address_t;

typedef struct {
    int descriptor;
    uint8_t public_address[6], random_address[6];
    uint8_t is_advertising, advertised_type, advertised_address_type;
    uint8_t advertised_count, advertised[31], response_count, response[31];
    uint8_t is_scanning, scans_actively, scan_policy;
    address_t accept_list[MAX_ACCEPT_LIST];
    int accept_list_count;
    uint8_t is_connecting, connects_to_accept_list, own_type;
    address_t wanted;
} controller_t;

// Both ends know it by the same handle.
typedef struct {
    uint16_t handle;
    int central, peripheral;
} link_t;

static controller_t controllers[MAX_CONTROLLERS];
static int controller_count;
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

// Zero when the host has powered the controller off.
static int send_packet(int to, const uint8_t *packet, size_t size) {
    return write(controllers[to].descriptor, packet, size) >= 0;
}

// A controller that its host has powered off takes no packets: a vendor event, which the kernel ignores, tests for that. Its
// links end without a message, and it does not advertise.
static int is_powered(int index) {
    static const uint8_t nothing[] = {EVENT, VENDOR, 1, 0};
    return send_packet(index, nothing, sizeof nothing);
}

static void send_event(int to, uint8_t code, const void *parameters, size_t size) {
    uint8_t packet[3 + 255] = {EVENT, code, (uint8_t)size};
    memcpy(packet + 3, parameters, size);
    send_packet(to, packet, 3 + size);
}

static void send_le_event(int to, uint8_t code, const void *parameters, size_t size) {
    uint8_t whole[255] = {code};
    memcpy(whole + 1, parameters, size);
    send_event(to, EVENT_LE_META, whole, 1 + size);
}

static void command_complete(int to, uint16_t command, const void *parameters, size_t size) {
    uint8_t whole[255] = {1, (uint8_t)command, (uint8_t)(command >> 8)};
    memcpy(whole + 3, parameters, size);
    send_event(to, EVENT_COMMAND_COMPLETE, whole, 3 + size);
}

static void command_complete_status(int to, uint16_t command, uint8_t status) { command_complete(to, command, &status, 1); }

static void command_status(int to, uint16_t command, uint8_t status) {
    uint8_t whole[] = {status, 1, (uint8_t)command, (uint8_t)(command >> 8)};
    send_event(to, EVENT_COMMAND_STATUS, whole, sizeof whole);
}

// Radio range --------------------------------------------------------------------------------------------------------

static FILE *open_setting(const char *name) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return fopen(path, "r");
}

static void read_settings(void) {
    memset(deaf, 0, sizeof deaf);
    memset(unplugged, 0, sizeof unplugged);
    FILE *file = open_setting("out-of-range");
    int listener, advertiser, index;
    while (file && fscanf(file, "%d %d", &listener, &advertiser) == 2)
        if (listener >= 0 && listener < controller_count && advertiser >= 0 && advertiser < controller_count)
            deaf[listener][advertiser] = 1;
    if (file) fclose(file);
    crowd = 0;
    file = open_setting("crowd");
    if (file && fscanf(file, "%u", &crowd) != 1) crowd = 0;
    if (file) fclose(file);
    file = open_setting("unplugged");
    while (file && fscanf(file, "%d", &index) == 1)
        if (index >= 0 && index < controller_count) unplugged[index] = 1;
    if (file) fclose(file);
}

static address_t own_address(int index, uint8_t type) {
    address_t address = {.type = type & 1};
    controller_t *controller = &controllers[index];
    memcpy(address.bytes, address.type ? controller->random_address : controller->public_address, 6);
    return address;
}

static int is_same(address_t one, address_t other) { return one.type == other.type && !memcmp(one.bytes, other.bytes, 6); }

static int is_in_accept_list(int index, address_t address) {
    controller_t *controller = &controllers[index];
    for (int i = 0; i < controller->accept_list_count; i++)
        if (is_same(controller->accept_list[i], address)) return 1;
    return 0;
}

static void report(int to, uint8_t kind, address_t from, const uint8_t *data, uint8_t size, int8_t strength) {
    uint8_t whole[64] = {1, kind, from.type};
    memcpy(whole + 3, from.bytes, 6);
    whole[9] = size;
    memcpy(whole + 10, data, size);
    whole[10 + size] = (uint8_t)strength;
    send_le_event(to, LE_ADVERTISING_REPORT, whole, 11u + size);
}

static void report_all(int to) {
    controller_t *listener = &controllers[to];
    for (int index = 0; index < controller_count; index++) {
        controller_t *other = &controllers[index];
        if (index == to || !other->is_advertising || deaf[to][index]) continue;
        address_t from = own_address(index, other->advertised_address_type);
        if ((listener->scan_policy & 1) && !is_in_accept_list(to, from)) continue;
        report(to, other->advertised_type, from, other->advertised, other->advertised_count, near_rssi);
        int responds = other->advertised_type == ADV_IND || other->advertised_type == ADV_SCAN_IND;
        if (listener->scans_actively && responds)
            report(to, SCAN_RSP, from, other->response, other->response_count, near_rssi);
    }
}

// Flags, and the 128-bit UUID of bitchat's service in little-endian order.
static const uint8_t crowd_data[] = {2,    0x01, 0x06, 17,   0x07, 0x5C, 0x4B, 0x3A, 0x2C, 0x1D, 0x8E,
                                     0x3F, 0x9B, 0x5A, 0x4C, 0x9E, 0x4A, 0x2D, 0x5E, 0x7B, 0xF4};

static void report_crowd(int to) {
    unsigned some = crowd < MAX_CROWD_REPORTS_PER_TICK ? crowd : MAX_CROWD_REPORTS_PER_TICK;
    for (unsigned i = 0; i < some; i++) {
        unsigned number = (crowd_next + i) % crowd;
        address_t from = {1, {(uint8_t)number, (uint8_t)(number >> 8), 0, 0, 0, 0xC0}};
        if (!(controllers[to].scan_policy & 1) || is_in_accept_list(to, from))
            report(to, ADV_IND, from, crowd_data, sizeof crowd_data, far_rssi);
    }
}

// Links --------------------------------------------------------------------------------------------------------------

static link_t *find_link(int index, uint16_t handle) {
    for (int i = 0; i < MAX_LINKS; i++)
        if (links[i].handle == handle && handle && (links[i].central == index || links[i].peripheral == index)) return &links[i];
    return NULL;
}

static void end_link(link_t *link, int by, uint8_t remote_reason, uint8_t local_reason) {
    int other = link->central == by ? link->peripheral : link->central;
    uint8_t whole[] = {SUCCESS, (uint8_t)link->handle, (uint8_t)(link->handle >> 8), remote_reason};
    link->handle = 0;
    send_event(other, EVENT_DISCONNECTION_COMPLETE, whole, sizeof whole);
    whole[3] = local_reason;
    if (local_reason) send_event(by, EVENT_DISCONNECTION_COMPLETE, whole, sizeof whole);
}

static void send_connection_complete(int to, uint8_t status, uint16_t handle, uint8_t role, address_t peer) {
    uint8_t whole[18] = {status, (uint8_t)handle, (uint8_t)(handle >> 8), role, peer.type};
    memcpy(whole + 5, peer.bytes, 6);
    // 50 ms, no latency, five seconds of silence.
    memcpy(whole + 11, (uint8_t[]){40, 0, 0, 0, 0xF4, 0x01, 0}, 7);
    send_le_event(to, LE_CONNECTION_COMPLETE, whole, sizeof whole);
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
        if (links[i].handle && (links[i].central == index || links[i].peripheral == index))
            end_link(&links[i], index, CONNECTION_TIMEOUT, 0);
}

// A pending connection is established as soon as its target is received.
static void connect_if_heard(int index) {
    controller_t *central = &controllers[index];
    for (int other = 0; central->is_connecting && other < controller_count; other++) {
        controller_t *peripheral = &controllers[other];
        if (other == index || !peripheral->is_advertising || peripheral->advertised_type > ADV_DIRECT_IND || deaf[index][other] ||
            are_linked(index, other))
            continue;
        address_t peer_address = own_address(other, peripheral->advertised_address_type);
        int is_wanted = central->connects_to_accept_list ? is_in_accept_list(index, peer_address)
                                                         : is_same(peer_address, central->wanted);
        if (!is_wanted) continue;
        link_t *link = links;
        while (link < links + MAX_LINKS && link->handle) link++;
        if (link == links + MAX_LINKS) return;
        if (!is_powered(other)) {
            reset(other);
            continue;
        }
        *link = (link_t){next_handle, index, other};
        next_handle = next_handle < 0x0EFF ? next_handle + 1 : 1;
        central->is_connecting = 0;
        peripheral->is_advertising = 0;
        send_connection_complete(other, SUCCESS, link->handle, 1, own_address(index, central->own_type));
        send_connection_complete(index, SUCCESS, link->handle, 0, peer_address);
    }
}

static void forward_data(int from, const uint8_t *packet, size_t size) {
    if (size < 5) return;
    uint16_t handle = (uint16_t)((packet[1] | packet[2] << 8) & 0x0FFF);
    link_t *link = find_link(from, handle);
    if (!link) return;
    uint8_t copy[5 + DATA_BYTES];
    if (size <= sizeof copy) {
        memcpy(copy, packet, size);
        // Hosts and controllers mark the start of a message differently.
        if (!(copy[2] & 0x30)) copy[2] |= 0x20;
        send_packet(link->central == from ? link->peripheral : link->central, copy, size);
    }
    // Also for a packet that is too long and dropped: the host gets its buffer back.
    uint8_t done[] = {1, packet[1], packet[2] & 0x0F, 1, 0};
    send_event(from, EVENT_COMPLETED_PACKETS, done, sizeof done);
}

// Commands -----------------------------------------------------------------------------------------------------------

// Octets and bits of the Supported_Commands table (section 6.27), for the commands that execute() knows.
static const struct {
    uint8_t octet, bits;
} supported[] = {{0, 0x20},  {2, 0x80},  {5, 0xC0},  {14, 0x28}, {15, 0x02}, {25, 0xF7}, {26, 0xFF}, {27, 0xE7}, {28, 0x08}};

static void send_supported_commands(int index, uint16_t command) {
    uint8_t whole[65] = {SUCCESS};
    for (size_t i = 0; i < sizeof supported / sizeof *supported; i++) whole[1 + supported[i].octet] = supported[i].bits;
    command_complete(index, command, whole, sizeof whole);
}

// Returns a status.
static uint8_t set_in_accept_list(controller_t *controller, address_t address, int is_in) {
    for (int i = 0; i < controller->accept_list_count; i++)
        if (is_same(controller->accept_list[i], address))
            controller->accept_list[i--] = controller->accept_list[--controller->accept_list_count];
    if (!is_in) return SUCCESS;
    if (controller->accept_list_count == MAX_ACCEPT_LIST) return MEMORY_CAPACITY_EXCEEDED;
    controller->accept_list[controller->accept_list_count++] = address;
    return SUCCESS;
}

static void read_data(uint8_t *into, uint8_t *into_count, const uint8_t *parameters) {
    *into_count = parameters[0] <= 31 ? parameters[0] : 31;
    memcpy(into, parameters + 1, *into_count);
}

// A command on a link: reports its status, and its completion at once.
static void execute_on_link(int index, uint16_t command, const uint8_t *p) {
    uint16_t handle = (uint16_t)(p[0] | p[1] << 8);
    link_t *link = find_link(index, handle);
    command_status(index, command, link ? SUCCESS : UNKNOWN_CONNECTION);
    if (!link) return;
    switch (command) {
    case HCI_DISCONNECT: end_link(link, index, REMOTE_USER_TERMINATED, LOCAL_HOST_TERMINATED); break;
    case HCI_READ_REMOTE_VERSION:
        send_event(index, EVENT_REMOTE_VERSION, (uint8_t[]){SUCCESS, p[0], p[1], 8, 0xF1, 0x05, 0, 0}, 8);
        break;
    // Maximum interval at 4, latency at 6, supervision timeout at 8.
    case LE_UPDATE_CONNECTION: {
        uint8_t updated[] = {SUCCESS, p[0], p[1], p[4], p[5], p[6], p[7], p[8], p[9]};
        send_le_event(link->central, LE_CONNECTION_UPDATE_COMPLETE, updated, sizeof updated);
        send_le_event(link->peripheral, LE_CONNECTION_UPDATE_COMPLETE, updated, sizeof updated);
        break;
    }
    case LE_READ_REMOTE_FEATURES: send_le_event(index, LE_REMOTE_FEATURES, (uint8_t[11]){SUCCESS, p[0], p[1]}, 11); break;
    }
}

static void execute(int index, uint16_t command, const uint8_t *p) {
    controller_t *controller = &controllers[index];
    switch (command) {
    case HCI_DISCONNECT: case HCI_READ_REMOTE_VERSION: case LE_UPDATE_CONNECTION: case LE_READ_REMOTE_FEATURES:
        return execute_on_link(index, command, p);
    case HCI_RESET: reset(index); break;
    case HCI_READ_LOCAL_VERSION: return command_complete(index, command, (uint8_t[]){SUCCESS, 8, 0, 0, 8, 0xF1, 0x05, 0, 0}, 9);
    case HCI_READ_SUPPORTED_COMMANDS: return send_supported_commands(index, command);
    // Low Energy, and nothing else.
    case HCI_READ_SUPPORTED_FEATURES: return command_complete(index, command, (uint8_t[9]){SUCCESS, 0, 0, 0, 0, 0x60}, 9);
    case HCI_READ_ADDRESS: {
        uint8_t whole[7] = {SUCCESS};
        memcpy(whole + 1, controller->public_address, 6);
        return command_complete(index, command, whole, sizeof whole);
    }
    case LE_READ_BUFFER_SIZE: return command_complete(index, command, (uint8_t[]){SUCCESS, DATA_BYTES, 0, DATA_PACKETS}, 4);
    case LE_READ_LOCAL_FEATURES: return command_complete(index, command, (uint8_t[9]){SUCCESS}, 9);
    case LE_SET_RANDOM_ADDRESS: memcpy(controller->random_address, p, 6); break;
    // Advertising type at 4, own address type at 5.
    case LE_SET_ADVERTISING_PARAMETERS:
        if (controller->is_advertising) return command_complete_status(index, command, COMMAND_DISALLOWED);
        // The reports of directed advertising have one type, whatever its duty cycle.
        controller->advertised_type = p[4] == ADV_DIRECT_IND_LOW_DUTY ? ADV_DIRECT_IND : p[4];
        controller->advertised_address_type = p[5];
        break;
    case LE_READ_ADVERTISING_POWER: return command_complete(index, command, (uint8_t[]){SUCCESS, 0}, 2);
    case LE_SET_ADVERTISING_DATA: read_data(controller->advertised, &controller->advertised_count, p); break;
    case LE_SET_SCAN_RESPONSE_DATA: read_data(controller->response, &controller->response_count, p); break;
    case LE_SET_ADVERTISING_ENABLE: controller->is_advertising = p[0]; break;
    // Scan type at 0, filter policy at 6.
    case LE_SET_SCAN_PARAMETERS:
        if (controller->is_scanning) return command_complete_status(index, command, COMMAND_DISALLOWED);
        controller->scans_actively = p[0];
        controller->scan_policy = p[6];
        break;
    case LE_SET_SCAN_ENABLE: controller->is_scanning = p[0]; break;
    // Filter policy at 4, peer address at 5, own address type at 12.
    case LE_CREATE_CONNECTION:
        if (controller->is_connecting) return command_status(index, command, COMMAND_DISALLOWED);
        controller->is_connecting = 1;
        controller->connects_to_accept_list = p[4];
        controller->wanted.type = p[5] & 1;
        memcpy(controller->wanted.bytes, p + 6, 6);
        controller->own_type = p[12];
        command_status(index, command, SUCCESS);
        return connect_if_heard(index);
    case LE_CREATE_CONNECTION_CANCEL: {
        if (!controller->is_connecting) return command_complete_status(index, command, COMMAND_DISALLOWED);
        controller->is_connecting = 0;
        command_complete_status(index, command, SUCCESS);
        return send_connection_complete(index, UNKNOWN_CONNECTION, 0, 0, controller->wanted);
    }
    case LE_READ_ACCEPT_LIST_SIZE: return command_complete(index, command, (uint8_t[]){SUCCESS, MAX_ACCEPT_LIST}, 2);
    case LE_CLEAR_ACCEPT_LIST: controller->accept_list_count = 0; break;
    case LE_ADD_TO_ACCEPT_LIST: case LE_REMOVE_FROM_ACCEPT_LIST: {
        address_t address = {.type = p[0] & 1};
        memcpy(address.bytes, p + 1, 6);
        uint8_t status = set_in_accept_list(controller, address, command == LE_ADD_TO_ACCEPT_LIST);
        return command_complete_status(index, command, status);
    }
    case LE_RANDOM: {
        uint8_t whole[9] = {SUCCESS};
        for (int i = 1; i < 9; i++) whole[i] = (uint8_t)rand();
        return command_complete(index, command, whole, sizeof whole);
    }
    case LE_READ_SUPPORTED_STATES:
        return command_complete(index, command, (uint8_t[]){SUCCESS, 255, 255, 255, 255, 255, 3, 0, 0}, 9);
    // Event masks, and commands without effect here.
    case HCI_SET_EVENT_MASK: case HCI_SET_EVENT_MASK_PAGE_2: case LE_SET_EVENT_MASK: break;
    default: return command_complete_status(index, command, UNKNOWN_COMMAND);
    }
    command_complete_status(index, command, SUCCESS);
}

// Main ---------------------------------------------------------------------------------------------------------------

static void handle(int index) {
    // A command has at most 255 bytes of parameters; missing ones are zero.
    uint8_t packet[4096] = {0};
    ssize_t size = read(controllers[index].descriptor, packet, sizeof packet);
    if (size < 0 && errno != EAGAIN && errno != EINTR) fail("read");
    if (size >= 4 && packet[0] == COMMAND) execute(index, (uint16_t)(packet[1] | packet[2] << 8), packet + 4);
    if (size > 0 && packet[0] == DATA) forward_data(index, packet, (size_t)size);
}

static void reset_unpowered_controllers(void) {
    for (int index = 0; index < controller_count; index++)
        if (!is_powered(index)) reset(index);
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

static void apply_unplugged(void) {
    for (int index = 0; index < controller_count; index++) {
        int is_there = controllers[index].descriptor >= 0;
        if (is_there && unplugged[index]) close_controller(index);
        if (!is_there && !unplugged[index]) open_controller(index);
    }
}

static void tick(void) {
    read_settings();
    apply_unplugged();
    reset_unpowered_controllers();
    for (int i = 0; i < MAX_LINKS; i++) {
        link_t *link = &links[i];
        int is_broken = deaf[link->central][link->peripheral] || deaf[link->peripheral][link->central];
        if (link->handle && is_broken) end_link(link, link->central, CONNECTION_TIMEOUT, CONNECTION_TIMEOUT);
    }
    for (int index = 0; index < controller_count; index++) {
        connect_if_heard(index);
        if (!controllers[index].is_scanning) continue;
        report_all(index);
        if (crowd) report_crowd(index);
    }
    if (crowd) crowd_next = (crowd_next + MAX_CROWD_REPORTS_PER_TICK) % crowd;
}

static int64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

int main(int argument_count, char **arguments) {
    if (argument_count != 3 || (controller_count = atoi(arguments[1])) < 1 || controller_count > MAX_CONTROLLERS) {
        fprintf(stderr, "usage: air COUNT FOLDER, with a COUNT of 1 to %d\n", MAX_CONTROLLERS);
        return 2;
    }
    folder = arguments[2];
    for (int index = 0; index < controller_count; index++) open_controller(index);
    struct pollfd polled[MAX_CONTROLLERS];
    int64_t due = now();
    while (1) {
        for (int index = 0; index < controller_count; index++)
            polled[index] = (struct pollfd){controllers[index].descriptor, POLLIN, 0};
        int64_t wait = due - now();
        if (poll(polled, (nfds_t)controller_count, wait > 0 ? (int)wait : 0) < 0 && errno != EINTR) fail("poll");
        for (int index = 0; index < controller_count; index++)
            if (polled[index].revents & POLLIN) handle(index);
        if (now() < due) continue;
        due = now() + tick_milliseconds;
        tick();
    }
}
