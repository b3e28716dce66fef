// The least that a channel needs, to compare with: messages of 4096 bytes from one socket to another, and a word back.
//   plain serve ADDRESS PSM        plain send FROM TO PSM BYTES
#include <bluetooth/bluetooth.h>
#include <bluetooth/l2cap.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { MESSAGE = 4096 };

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

static void check(int result, const char *what) {
    if (result >= 0) return;
    perror(what);
    exit(1);
}

static struct sockaddr_l2 address(const char *text, int psm) {
    struct sockaddr_l2 result = {.l2_family = AF_BLUETOOTH, .l2_psm = htobs(psm), .l2_bdaddr_type = BDADDR_LE_PUBLIC};
    unsigned byte[6];
    if (sscanf(text, "%x:%x:%x:%x:%x:%x", byte, byte + 1, byte + 2, byte + 3, byte + 4, byte + 5) != 6) exit(2);
    for (int i = 0; i < 6; i++) result.l2_bdaddr.b[i] = byte[5 - i];
    return result;
}

static int bound(const char *text, int psm) {
    int descriptor = socket(AF_BLUETOOTH, SOCK_SEQPACKET, BTPROTO_L2CAP);
    check(descriptor, "socket");
    struct sockaddr_l2 here = address(text, psm);
    check(bind(descriptor, (struct sockaddr *)&here, sizeof here), "bind");
    unsigned short limit = MESSAGE;
    check(setsockopt(descriptor, SOL_BLUETOOTH, BT_RCVMTU, &limit, sizeof limit), "BT_RCVMTU");
    return descriptor;
}

int main(int count, char **words) {
    char block[MESSAGE] = {0};
    if (count == 4 && !strcmp(words[1], "serve")) {
        int listener = bound(words[2], strtol(words[3], NULL, 0));
        check(listen(listener, 1), "listen");
        puts("ready");
        fflush(stdout);
        int link = accept(listener, NULL, NULL);
        check(link, "accept");
        long total = 0, expected = 0;
        check(recv(link, &expected, sizeof expected, 0), "recv");
        while (total < expected) {
            ssize_t got = recv(link, block, sizeof block, 0);
            check(got ? got : -1, "recv");
            total += got;
        }
        check(send(link, block, 1, 0), "send");
        recv(link, block, 1, 0);
        return 0;
    }
    if (count == 6 && !strcmp(words[1], "send")) {
        int link = bound(words[2], 0);
        struct sockaddr_l2 there = address(words[3], strtol(words[4], NULL, 0));
        double begun = now();
        check(connect(link, (struct sockaddr *)&there, sizeof there), "connect");
        double connected = now();
        long left = atol(words[5]);
        check(send(link, &left, sizeof left, 0), "send");
        for (long total = left; left > 0;) {
            ssize_t sent = send(link, block, left < MESSAGE ? left : MESSAGE, 0);
            check(sent, "send");
            left -= sent;
            if (left == 0) {
                check(recv(link, block, 1, 0), "recv");
                printf("%.3f %.0f\n", connected - begun, total / (now() - connected));
            }
        }
        return 0;
    }
    return 2;
}
