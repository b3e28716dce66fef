// The least code that moves one file over nearshare's records: read, seal, send; receive, open, write. One thread an end, no
// handshake, no window, no journal, a key that both ends know. What it takes is the limit of this machine for nearshare.
//
//     reference receive OUTPUT CIPHER BLOCK       prints its port, takes one connection
//     reference send INPUT CIPHER BLOCK PORT      CIPHER: plain or aes; BLOCK: bytes of content that one call moves
#include <arpa/inet.h>
#include <err.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
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

static void receive_file(const char *path, int link, size_t block) {
    size_t room = block / CONTENT * RECORD, filled = 0, position = 0;
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    unsigned char *bytes = malloc(room);
    if (file < 0 || !bytes) err(1, "%s", path);
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
            write_all(file, bytes + position + HEADER + FRAME, sealed - FRAME - TAG);
            position += HEADER + sealed;
        }
        memmove(bytes, bytes + position, filled - position);
        filled -= position;
        position = 0;
    }
}

int main(int count, char **words) {
    int sends = count == 6 && strcmp(words[1], "send") == 0;
    if (!sends && (count != 5 || strcmp(words[1], "receive") != 0)) errx(2, "see the first lines of reference.c");
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int link = socket(AF_INET, SOCK_STREAM, 0);
    size_t block = strtoul(words[4], NULL, 10) / CONTENT * CONTENT;
    if (block == 0) errx(2, "a block has at least %d bytes", CONTENT);
    begin(words[3], sends);
    if (sends) {
        address.sin_port = htons(atoi(words[5]));
        if (connect(link, (struct sockaddr *)&address, length) != 0) err(1, "connect");
        send_file(words[2], link, block);
        shutdown(link, SHUT_WR);
        return read(link, &count, 1) != 0;
    }
    if (bind(link, (struct sockaddr *)&address, length) != 0 || listen(link, 1) != 0) err(1, "listen");
    getsockname(link, (struct sockaddr *)&address, &length);
    printf("%d\n", ntohs(address.sin_port));
    fflush(stdout);
    receive_file(words[2], accept(link, NULL, NULL), block);
    return 0;
}
