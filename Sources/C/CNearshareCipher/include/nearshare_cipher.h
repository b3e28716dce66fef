// AEADs in place, by the BoringSSL that swift-crypto contains: its own functions allocate and copy each result.
#pragma once
#include <stddef.h>
#include <stdint.h>

enum { NEARSHARE_CIPHER_KEY_LENGTH = 32, NEARSHARE_CIPHER_TAG_LENGTH = 16 };

/// A cipher with its expanded key; several threads may use it at once.
typedef struct evp_aead_ctx_st nearshare_cipher;

/// AES-256-GCM, else ChaCha20-Poly1305. Returns NULL where memory is lacking.
nearshare_cipher *nearshare_cipher_create(int is_aes, const uint8_t *key);

/// Overwrites and frees the key.
void nearshare_cipher_destroy(nearshare_cipher *cipher);

/// Encrypts `count` bytes in place, and writes the tag. The nonce is four zero bytes and the counter, big-endian. Returns 1, or 0
/// for more bytes than the cipher can seal.
int nearshare_cipher_seal(
    const nearshare_cipher *cipher, uint64_t counter, uint8_t *bytes, size_t count, uint8_t *tag, const uint8_t *associated,
    size_t associated_count);

/// Decrypts `count` bytes in place if the tag matches. Returns 1; or 0, and the bytes are zeros then.
int nearshare_cipher_open(
    const nearshare_cipher *cipher, uint64_t counter, uint8_t *bytes, size_t count, const uint8_t *tag,
    const uint8_t *associated, size_t associated_count);
