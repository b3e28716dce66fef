#include "lazy_library.h"
#include "nearshare_shims.h"

#include <qrencode.h>

#define FUNCTIONS(X)                                                                                                    \
    X(QRcode *, QRcode_encodeString,                                                                                    \
      (const char *text, int version, QRecLevel level, QRencodeMode hint, int case_sensitive),                          \
      (text, version, level, hint, case_sensitive))                                                                     \
    X(void, QRcode_free, (QRcode * code), (code))

LAZY_LIBRARY(nearshare_load_qrencode, "libqrencode.so.4", FUNCTIONS)

int nearshare_qr_encode(const char *text, uint8_t *modules, int capacity) {
    // The smallest version that holds the text, with the least redundancy: a screen has no scratches. Runs of digits and
    // capitals take 5.5 bits a character, all else 8.
    QRcode *code = QRcode_encodeString(text, 0, QR_ECLEVEL_L, QR_MODE_8, 1);
    if (!code) return 0;
    int width = code->width;
    if (width < 1 || width > capacity / width) width = 0;
    // The lowest bit is the colour; the others are the library's own.
    for (int index = 0; index < width * width; index++) modules[index] = code->data[index] & 1;
    QRcode_free(code);
    return width;
}
