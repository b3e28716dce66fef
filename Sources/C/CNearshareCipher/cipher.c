#include "nearshare_cipher.h"

enum { NONCE_LENGTH = 12 };

// Declared here because swift-crypto links these functions, but exports no header of theirs. The prefix is its own, so that they
// are never those of another BoringSSL in the program; should a later version lack one, linking fails.
typedef struct evp_aead_st aead;
const aead *CCryptoBoringSSL_EVP_aead_aes_256_gcm(void);
const aead *CCryptoBoringSSL_EVP_aead_chacha20_poly1305(void);
nearshare_cipher *CCryptoBoringSSL_EVP_AEAD_CTX_new(const aead *kind, const uint8_t *key, size_t key_length, size_t tag_length);
void CCryptoBoringSSL_EVP_AEAD_CTX_free(nearshare_cipher *cipher);
int CCryptoBoringSSL_EVP_AEAD_CTX_seal_scatter(
    const nearshare_cipher *cipher, uint8_t *out, uint8_t *tag, size_t *tag_length, size_t tag_room, const uint8_t *nonce,
    size_t nonce_length, const uint8_t *in, size_t count, const uint8_t *extra, size_t extra_count, const uint8_t *associated,
    size_t associated_count);
int CCryptoBoringSSL_EVP_AEAD_CTX_open_gather(
    const nearshare_cipher *cipher, uint8_t *out, const uint8_t *nonce, size_t nonce_length, const uint8_t *in, size_t count,
    const uint8_t *tag, size_t tag_length, const uint8_t *associated, size_t associated_count);

nearshare_cipher *nearshare_cipher_create(int is_aes, const uint8_t *key) {
    const aead *kind = is_aes ? CCryptoBoringSSL_EVP_aead_aes_256_gcm() : CCryptoBoringSSL_EVP_aead_chacha20_poly1305();
    return CCryptoBoringSSL_EVP_AEAD_CTX_new(kind, key, NEARSHARE_CIPHER_KEY_LENGTH, NEARSHARE_CIPHER_TAG_LENGTH);
}

void nearshare_cipher_destroy(nearshare_cipher *cipher) { CCryptoBoringSSL_EVP_AEAD_CTX_free(cipher); }

static void make_nonce(uint64_t counter, uint8_t nonce[NONCE_LENGTH]) {
    for (int index = 0; index < NONCE_LENGTH; index++) nonce[index] = index < 4 ? 0 : counter >> (8 * (NONCE_LENGTH - 1 - index));
}

int nearshare_cipher_seal(
    const nearshare_cipher *cipher, uint64_t counter, uint8_t *bytes, size_t count, uint8_t *tag, const uint8_t *associated,
    size_t associated_count) {
    uint8_t nonce[NONCE_LENGTH];
    size_t tag_length;
    make_nonce(counter, nonce);
    return CCryptoBoringSSL_EVP_AEAD_CTX_seal_scatter(
        cipher, bytes, tag, &tag_length, NEARSHARE_CIPHER_TAG_LENGTH, nonce, NONCE_LENGTH, bytes, count, NULL, 0, associated,
        associated_count);
}

int nearshare_cipher_open(
    const nearshare_cipher *cipher, uint64_t counter, uint8_t *bytes, size_t count, const uint8_t *tag,
    const uint8_t *associated, size_t associated_count) {
    uint8_t nonce[NONCE_LENGTH];
    make_nonce(counter, nonce);
    return CCryptoBoringSSL_EVP_AEAD_CTX_open_gather(
        cipher, bytes, nonce, NONCE_LENGTH, bytes, count, tag, NEARSHARE_CIPHER_TAG_LENGTH, associated, associated_count);
}
