// The least code that moves a file, or a folder of folders of files, over nearshare's records: read, seal, send; receive, open,
// write. One thread an end, no handshake, no window, no journal, a key that both ends know. What it takes is the limit of this
// machine for nearshare.
//
//     reference receive OUTPUT CIPHER BLOCK       prints its port, takes one connection
//     reference send INPUT CIPHER BLOCK PORT      CIPHER: plain or aes; BLOCK: bytes of content that one call moves
//     reference receive-tree, send-tree           the same with folders, whose files are smaller than a record
//
// An IPv4 address behind the other words goes over a network, by BBR as nearshare does; without one it is the loopback's.
#include <arpa/inet.h>
#include <dirent.h>
#include <err.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <openssl/evp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum { HEADER = 4, FRAME = 9, CONTENT = 128 << 10, TAG = 16, RECORD = HEADER + FRAME + CONTENT + TAG };

static EVP_CIPHER_CTX *context;
static uint64_t counter;

static void set_nonce(void) {
    unsigned char nonce[12] = {0};
    uint64_t number = htobe64(counter++);
    memcpy(nonce + 4, &number, sizeof number);
    if (EVP_CipherInit_ex(context, NULL, NULL, NULL, nonce, -1) != 1) errx(1, "the nonce was refused");
}

static void begin(const char *cipher, int seals) {
    static const unsigned char key[32] = {1};
    if (strcmp(cipher, "plain") == 0) return;
    context = EVP_CIPHER_CTX_new();
    if (!context || EVP_CipherInit_ex(context, EVP_aes_256_gcm(), NULL, key, NULL, seals) != 1) errx(1, "no cipher");
}

// A record: length u32 · sealed (type u8 · transfer u64 · content · tag).
static size_t seal(unsigned char *record, size_t content) {
    int done;
    uint32_t sealed = htobe32(FRAME + content + TAG);
    memcpy(record, &sealed, HEADER);
    memset(record + HEADER, 1, FRAME);
    if (context) {
        unsigned char *frame = record + HEADER;
        set_nonce();
        EVP_EncryptUpdate(context, NULL, &done, record, HEADER);
        EVP_EncryptUpdate(context, frame, &done, frame, FRAME + content);
        EVP_EncryptFinal_ex(context, frame + FRAME + content, &done);
        EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_GET_TAG, TAG, frame + FRAME + content);
    }
    return HEADER + FRAME + content + TAG;
}

static void open_in_place(unsigned char *record, size_t sealed) {
    int done;
    if (!context) return;
    unsigned char *frame = record + HEADER;
    set_nonce();
    EVP_DecryptUpdate(context, NULL, &done, record, HEADER);
    EVP_DecryptUpdate(context, frame, &done, frame, sealed - TAG);
    EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_SET_TAG, TAG, frame + sealed - TAG);
    if (EVP_DecryptFinal_ex(context, frame + sealed - TAG, &done) != 1) errx(1, "a record that failed authentication");
}

static void write_all(int file, const unsigned char *bytes, size_t count) {
    while (count > 0) {
        ssize_t written = write(file, bytes, count);
        if (written < 0) err(1, "write");
        bytes += written;
        count -= written;
    }
}

static void send_file(const char *path, int link, size_t block) {
    int file = open(path, O_RDONLY);
    unsigned char *bytes = malloc(block / CONTENT * RECORD);
    if (file < 0 || !bytes) err(1, "%s", path);
    for (;;) {
        size_t filled = 0;
        for (size_t record = 0; record < block / CONTENT; record++) {
            ssize_t count = read(file, bytes + filled + HEADER + FRAME, CONTENT);
            if (count < 0) err(1, "%s", path);
            if (count == 0) break;
            filled += seal(bytes + filled, count);
        }
        if (filled == 0) return;
        write_all(link, bytes, filled);
    }
}

// Receives records, and gives the content of each to a function.
static void receive_records(int link, size_t block, void (*take)(const unsigned char *content, size_t count)) {
    size_t room = block / CONTENT * RECORD, filled = 0, position = 0;
    unsigned char *bytes = malloc(room);
    if (!bytes) err(1, "malloc");
    for (;;) {
        // Wakes up for a whole block.
        int wanted = room - filled < block ? room - filled : block;
        setsockopt(link, SOL_SOCKET, SO_RCVLOWAT, &wanted, sizeof wanted);
        ssize_t count = recv(link, bytes + filled, room - filled, 0);
        if (count < 0) err(1, "recv");
        if (count == 0) return;
        filled += count;
        for (;;) {
            uint32_t sealed = 0;
            if (filled - position >= HEADER) memcpy(&sealed, bytes + position, HEADER);
            sealed = be32toh(sealed);
            if (sealed == 0 || sealed > RECORD - HEADER || filled - position < HEADER + sealed) break;
            open_in_place(bytes + position, sealed);
            take(bytes + position + HEADER + FRAME, sealed - FRAME - TAG);
            position += HEADER + sealed;
        }
        memmove(bytes, bytes + position, filled - position);
        filled -= position;
        position = 0;
    }
}

static int output;

static void write_content(const unsigned char *content, size_t count) { write_all(output, content, count); }

static void receive_file(const char *path, int link, size_t block) {
    output = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (output < 0) err(1, "%s", path);
    receive_records(link, block, write_content);
}

// An entry of a folder, followed by its name, and by its content if it is a file. No entry lies in two records.
struct entry {
    uint32_t size;
    uint16_t name_length;
    uint16_t is_folder;
    struct timespec modified;
};

static int tree_link;
static unsigned char *tree_block;
static size_t tree_room, tree_filled, record_content;

// Ends the record that is being filled, and sends the block when it has no room for another one.
static void end_record(int is_last) {
    if (record_content > 0) tree_filled += seal(tree_block + tree_filled, record_content);
    record_content = 0;
    if (tree_filled + RECORD <= tree_room && !is_last) return;
    write_all(tree_link, tree_block, tree_filled);
    tree_filled = 0;
}

static unsigned char *add_entry(const struct entry *entry, const char *name) {
    size_t needed = sizeof *entry + entry->name_length + entry->size;
    if (needed > CONTENT) errx(1, "%s is larger than a record", name);
    if (record_content + needed > CONTENT) end_record(0);
    unsigned char *place = tree_block + tree_filled + HEADER + FRAME + record_content;
    memcpy(place, entry, sizeof *entry);
    memcpy(place + sizeof *entry, name, entry->name_length);
    record_content += needed;
    return place + sizeof *entry + entry->name_length;
}

static void send_folder(int folder, const char *prefix) {
    DIR *listing = fdopendir(folder);
    if (!listing) err(1, "%s", prefix);
    for (struct dirent *found; (found = readdir(listing));) {
        char name[1024];
        struct stat status;
        if (found->d_name[0] == '.') continue;
        int length = snprintf(name, sizeof name, "%s%s", prefix, found->d_name);
        int file = openat(folder, found->d_name, O_RDONLY);
        if (file < 0 || fstat(file, &status) != 0) err(1, "%s", name);
        struct entry entry = {.name_length = length, .is_folder = S_ISDIR(status.st_mode), .modified = status.st_mtim};
        if (entry.is_folder) {
            add_entry(&entry, name);
            strcat(name, "/");
            send_folder(file, name);
            continue;
        }
        entry.size = status.st_size;
        unsigned char *content = add_entry(&entry, name);
        if (read(file, content, entry.size) != entry.size) err(1, "%s", name);
        close(file);
    }
    closedir(listing);
}

static void send_tree(const char *path, int link, size_t block) {
    tree_link = link;
    tree_room = block / CONTENT * RECORD;
    tree_block = malloc(tree_room);
    int folder = open(path, O_RDONLY | O_DIRECTORY);
    if (folder < 0 || !tree_block) err(1, "%s", path);
    send_folder(folder, "");
    end_record(1);
}

static void write_entries(const unsigned char *content, size_t count) {
    static int folder = -1;
    for (size_t position = 0; position < count;) {
        struct entry entry;
        char name[1024] = {0};
        memcpy(&entry, content + position, sizeof entry);
        memcpy(name, content + position + sizeof entry, entry.name_length);
        const unsigned char *body = content + position + sizeof entry + entry.name_length;
        position += sizeof entry + entry.name_length + entry.size;
        if (entry.is_folder) {
            if (folder >= 0) close(folder);
            if (mkdirat(output, name, 0700) != 0) err(1, "%s", name);
            folder = openat(output, name, O_RDONLY | O_DIRECTORY);
            continue;
        }
        char *base = strrchr(name, '/') + 1;
        int file = openat(folder, base, O_WRONLY | O_CREAT | O_EXCL, 0600);
        if (file < 0) err(1, "%s", name);
        write_all(file, body, entry.size);
        struct timespec times[2] = {{.tv_nsec = UTIME_NOW}, entry.modified};
        futimens(file, times);
        close(file);
    }
}

static void receive_tree(const char *path, int link, size_t block) {
    if (mkdir(path, 0700) != 0 || (output = open(path, O_RDONLY | O_DIRECTORY)) < 0) err(1, "%s", path);
    receive_records(link, block, write_entries);
}

int main(int count, char **words) {
    int sends = count > 1 && strncmp(words[1], "send", 4) == 0;
    int is_tree = count > 1 && strstr(words[1], "-tree") != NULL;
    int needed = sends ? 6 : 5;
    if (count != needed && count != needed + 1) errx(2, "see the first lines of reference.c");
    const char *host = count > needed ? words[needed] : "127.0.0.1";
    struct sockaddr_in address = {.sin_family = AF_INET};
    if (inet_pton(AF_INET, host, &address.sin_addr) != 1) errx(2, "%s is no IPv4 address", host);
    socklen_t length = sizeof address;
    int link = socket(AF_INET, SOCK_STREAM, 0);
    if (count > needed) setsockopt(link, IPPROTO_TCP, TCP_CONGESTION, "bbr", 3);
    size_t block = strtoul(words[4], NULL, 10) / CONTENT * CONTENT;
    if (block == 0) errx(2, "a block has at least %d bytes", CONTENT);
    begin(words[3], sends);
    if (sends) {
        address.sin_port = htons(atoi(words[5]));
        if (connect(link, (struct sockaddr *)&address, length) != 0) err(1, "connect");
        (is_tree ? send_tree : send_file)(words[2], link, block);
        shutdown(link, SHUT_WR);
        return read(link, &count, 1) != 0;
    }
    if (bind(link, (struct sockaddr *)&address, length) != 0 || listen(link, 1) != 0) err(1, "listen");
    getsockname(link, (struct sockaddr *)&address, &length);
    printf("%d\n", ntohs(address.sin_port));
    fflush(stdout);
    (is_tree ? receive_tree : receive_file)(words[2], accept(link, NULL, NULL), block);
    return 0;
}
