#include "lazy_library.h"
#include "nearshare_shims.h"

#include <qrencode.h>

#define FUNCTIONS(X)                                                                                                    \
    X(QRcode *, QRcode_encodeString8bit, (const char *text, int version, QRecLevel level), (text, version, level))     \
    X(void, QRcode_free, (QRcode * code), (code))

LAZY_LIBRARY(nearshare_load_qrencode, "libqrencode.so.4", FUNCTIONS)

int nearshare_qr_encode(const char *text, uint8_t *modules, int capacity) {
    // The smallest version that holds the text, with the least redundancy: a screen has no scratches.
    QRcode *code = QRcode_encodeString8bit(text, 0, QR_ECLEVEL_L);
    if (!code) return 0;
    int width = code->width;
    if (width < 1 || width > capacity / width) width = 0;
    // The lowest bit is the colour; the others are the library's own.
    for (int index = 0; index < width * width; index++) modules[index] = code->data[index] & 1;
    QRcode_free(code);
    return width;
}
