#include "lazy_library.h"
#include "nearshare_shims.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <string.h>

#define FUNCTIONS(X)                                                                                                    \
    X(int, OPENSSL_init_ssl, (uint64_t options, const OPENSSL_INIT_SETTINGS *settings), (options, settings))            \
    X(const SSL_METHOD *, TLS_server_method, (void), ())                                                                \
    X(const SSL_METHOD *, TLS_client_method, (void), ())                                                                \
    X(SSL_CTX *, SSL_CTX_new, (const SSL_METHOD *method), (method))                                                     \
    X(void, SSL_CTX_free, (SSL_CTX * context), (context))                                                               \
    X(long, SSL_CTX_ctrl, (SSL_CTX * context, int command, long number, void *data), (context, command, number, data))  \
    X(uint64_t, SSL_CTX_set_options, (SSL_CTX * context, uint64_t options), (context, options))                         \
    X(int, SSL_CTX_set_num_tickets, (SSL_CTX * context, size_t count), (context, count))                                \
    X(void, SSL_CTX_set_verify, (SSL_CTX * context, int mode, SSL_verify_cb callback), (context, mode, callback))       \
    X(void, SSL_CTX_set_cert_verify_callback,                                                                           \
      (SSL_CTX * context, int (*callback)(X509_STORE_CTX *, void *), void *data), (context, callback, data))            \
    X(void, SSL_CTX_set_alpn_select_cb, (SSL_CTX * context, SSL_CTX_alpn_select_cb_func callback, void *data),          \
      (context, callback, data))                                                                                        \
    X(int, SSL_CTX_set_alpn_protos, (SSL_CTX * context, const unsigned char *names, unsigned length),                   \
      (context, names, length))                                                                                         \
    X(int, SSL_CTX_use_PrivateKey, (SSL_CTX * context, EVP_PKEY * key), (context, key))                                 \
    X(int, SSL_CTX_use_certificate, (SSL_CTX * context, X509 * certificate), (context, certificate))                    \
    X(int, SSL_CTX_check_private_key, (const SSL_CTX *context), (context))                                              \
    X(X509 *, SSL_CTX_get0_certificate, (const SSL_CTX *context), (context))                                            \
    X(SSL *, SSL_new, (SSL_CTX * context), (context))                                                                   \
    X(void, SSL_free, (SSL * connection), (connection))                                                                 \
    X(void, SSL_set_bio, (SSL * connection, BIO * input, BIO * output), (connection, input, output))                    \
    X(void, SSL_set0_rbio, (SSL * connection, BIO * input), (connection, input))                                        \
    X(BIO *, SSL_get_wbio, (const SSL *connection), (connection))                                                       \
    X(void, SSL_set_accept_state, (SSL * connection), (connection))                                                     \
    X(void, SSL_set_connect_state, (SSL * connection), (connection))                                                    \
    X(int, SSL_set_ex_data, (SSL * connection, int index, void *data), (connection, index, data))                       \
    X(void *, SSL_get_ex_data, (const SSL *connection, int index), (connection, index))                                 \
    X(int, SSL_get_ex_data_X509_STORE_CTX_idx, (void), ())                                                              \
    X(int, SSL_do_handshake, (SSL * connection), (connection))                                                          \
    X(int, SSL_read, (SSL * connection, void *bytes, int capacity), (connection, bytes, capacity))                      \
    X(int, SSL_write, (SSL * connection, const void *bytes, int length), (connection, bytes, length))                   \
    X(int, SSL_shutdown, (SSL * connection), (connection))                                                              \
    X(int, SSL_get_error, (const SSL *connection, int code), (connection, code))                                        \
    X(X509 *, SSL_get1_peer_certificate, (const SSL *connection), (connection))                                         \
    X(BIO *, BIO_new, (const BIO_METHOD *method), (method))                                                             \
    X(BIO *, BIO_new_mem_buf, (const void *bytes, int length), (bytes, length))                                         \
    X(const BIO_METHOD *, BIO_s_mem, (void), ())                                                                        \
    X(int, BIO_free, (BIO * bio), (bio))                                                                                \
    X(int, BIO_read, (BIO * bio, void *bytes, int capacity), (bio, bytes, capacity))                                    \
    X(long, BIO_ctrl, (BIO * bio, int command, long number, void *data), (bio, command, number, data))                  \
    X(EVP_PKEY *, PEM_read_bio_PrivateKey, (BIO * bio, EVP_PKEY * *key, pem_password_cb * callback, void *data),        \
      (bio, key, callback, data))                                                                                       \
    X(X509 *, PEM_read_bio_X509, (BIO * bio, X509 * *certificate, pem_password_cb * callback, void *data),              \
      (bio, certificate, callback, data))                                                                               \
    X(int, PEM_write_bio_PrivateKey,                                                                                    \
      (BIO * bio, const EVP_PKEY *key, const EVP_CIPHER *cipher, const unsigned char *password, int length,             \
       pem_password_cb *callback, void *data),                                                                          \
      (bio, key, cipher, password, length, callback, data))                                                             \
    X(int, PEM_write_bio_X509, (BIO * bio, const X509 *certificate), (bio, certificate))                                \
    X(EVP_PKEY_CTX *, EVP_PKEY_CTX_new_id, (int type, ENGINE * engine), (type, engine))                                 \
    X(void, EVP_PKEY_CTX_free, (EVP_PKEY_CTX * context), (context))                                                     \
    X(int, EVP_PKEY_keygen_init, (EVP_PKEY_CTX * context), (context))                                                   \
    X(int, EVP_PKEY_CTX_set_rsa_keygen_bits, (EVP_PKEY_CTX * context, int bits), (context, bits))                       \
    X(int, EVP_PKEY_keygen, (EVP_PKEY_CTX * context, EVP_PKEY * *key), (context, key))                                  \
    X(void, EVP_PKEY_free, (EVP_PKEY * key), (key))                                                                     \
    X(const EVP_MD *, EVP_sha256, (void), ())                                                                           \
    X(X509 *, X509_new, (void), ())                                                                                     \
    X(void, X509_free, (X509 * certificate), (certificate))                                                             \
    X(int, X509_set_version, (X509 * certificate, long version), (certificate, version))                                \
    X(ASN1_INTEGER *, X509_get_serialNumber, (X509 * certificate), (certificate))                                       \
    X(int, ASN1_INTEGER_set_uint64, (ASN1_INTEGER * integer, uint64_t value), (integer, value))                         \
    X(ASN1_TIME *, X509_getm_notBefore, (const X509 *certificate), (certificate))                                       \
    X(ASN1_TIME *, X509_getm_notAfter, (const X509 *certificate), (certificate))                                        \
    X(const ASN1_TIME *, X509_get0_notBefore, (const X509 *certificate), (certificate))                                 \
    X(const ASN1_TIME *, X509_get0_notAfter, (const X509 *certificate), (certificate))                                  \
    X(ASN1_TIME *, ASN1_TIME_set, (ASN1_TIME * time, time_t seconds), (time, seconds))                                  \
    X(int, X509_cmp_time, (const ASN1_TIME *time, time_t *other), (time, other))                                        \
    X(X509_NAME *, X509_get_subject_name, (const X509 *certificate), (certificate))                                     \
    X(int, X509_set_issuer_name, (X509 * certificate, const X509_NAME *name), (certificate, name))                      \
    X(int, X509_NAME_add_entry_by_txt,                                                                                  \
      (X509_NAME * name, const char *field, int type, const unsigned char *bytes, int length, int place, int set),      \
      (name, field, type, bytes, length, place, set))                                                                   \
    X(int, X509_set_pubkey, (X509 * certificate, EVP_PKEY * key), (certificate, key))                                   \
    X(EVP_PKEY *, X509_get0_pubkey, (const X509 *certificate), (certificate))                                           \
    X(int, X509_sign, (X509 * certificate, EVP_PKEY * key, const EVP_MD *digest), (certificate, key, digest))           \
    X(int, X509_verify, (X509 * certificate, EVP_PKEY * key), (certificate, key))                                       \
    X(int, X509_digest, (const X509 *certificate, const EVP_MD *digest, unsigned char *bytes, unsigned *length),        \
      (certificate, digest, bytes, length))                                                                             \
    X(X509 *, X509_STORE_CTX_get0_cert, (const X509_STORE_CTX *store), (store))                                         \
    X(void *, X509_STORE_CTX_get_ex_data, (const X509_STORE_CTX *store, int index), (store, index))                     \
    X(void, X509_STORE_CTX_set_error, (X509_STORE_CTX * store, int error), (store, error))                              \
    X(unsigned long, ERR_get_error, (void), ())                                                                         \
    X(void, ERR_clear_error, (void), ())                                                                                \
    X(const char *, ERR_reason_error_string, (unsigned long code), (code))

LAZY_LIBRARY(nearshare_load_openssl, "libssl.so.3", FUNCTIONS)

const char *nearshare_load_ssl(void) {
    const char *problem = nearshare_load_openssl();
    // The program ends while threads may still use the library; its configuration belongs to other programs.
    if (!problem) OPENSSL_init_ssl(OPENSSL_INIT_NO_ATEXIT | OPENSSL_INIT_NO_LOAD_CONFIG, NULL);
    return problem;
}

// MARK: Identity

enum { key_bits = 2048, longest_certificate_list = 16384 };

static EVP_PKEY *make_key(void) {
    EVP_PKEY *key = NULL;
    EVP_PKEY_CTX *context = EVP_PKEY_CTX_new_id(EVP_PKEY_RSA, NULL);
    if (context && EVP_PKEY_keygen_init(context) == 1 && EVP_PKEY_CTX_set_rsa_keygen_bits(context, key_bits) == 1)
        EVP_PKEY_keygen(context, &key);
    EVP_PKEY_CTX_free(context);
    return key;
}

static X509 *make_certificate(EVP_PKEY *key, const char *name, int64_t begin, int64_t end, uint64_t serial) {
    X509 *certificate = X509_new();
    if (!certificate) return NULL;
    X509_NAME *subject = X509_get_subject_name(certificate);
    int is_made = X509_set_version(certificate, X509_VERSION_3) &&
                  ASN1_INTEGER_set_uint64(X509_get_serialNumber(certificate), serial) &&
                  ASN1_TIME_set(X509_getm_notBefore(certificate), begin) &&
                  ASN1_TIME_set(X509_getm_notAfter(certificate), end) &&
                  X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC, (const unsigned char *)name, -1, -1, 0) &&
                  X509_set_issuer_name(certificate, subject) && X509_set_pubkey(certificate, key) &&
                  X509_sign(certificate, key, EVP_sha256());
    if (is_made) return certificate;
    X509_free(certificate);
    return NULL;
}

int nearshare_tls_make_identity(const char *name, int64_t begin, int64_t end, uint64_t serial, uint8_t *pem, int capacity) {
    int count = 0;
    EVP_PKEY *key = make_key();
    X509 *certificate = key ? make_certificate(key, name, begin, end, serial) : NULL;
    BIO *bio = certificate ? BIO_new(BIO_s_mem()) : NULL;
    if (bio && PEM_write_bio_PrivateKey(bio, key, NULL, NULL, 0, NULL, NULL) && PEM_write_bio_X509(bio, certificate))
        count = BIO_read(bio, pem, capacity);
    if (bio) BIO_free(bio);
    X509_free(certificate);
    EVP_PKEY_free(key);
    return count > 0 && count < capacity ? count : 0;
}

static int write_fingerprint(const X509 *certificate, uint8_t *fingerprint) {
    unsigned length = 0;
    return X509_digest(certificate, EVP_sha256(), fingerprint, &length) == 1 && length == NEARSHARE_FINGERPRINT_LENGTH;
}

// MARK: Settings

/// The certificate of the other end is checked alone: names and chains say nothing about it.
static int check_certificate(X509_STORE_CTX *store, void *unused) {
    (void)unused;
    X509 *certificate = X509_STORE_CTX_get0_cert(store);
    SSL *connection = X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx());
    time_t now = (time_t)(intptr_t)SSL_get_ex_data(connection, 0);
    EVP_PKEY *key = certificate ? X509_get0_pubkey(certificate) : NULL;
    int problem = X509_V_OK;
    if (!key) problem = X509_V_ERR_UNSPECIFIED;
    else if (X509_cmp_time(X509_get0_notBefore(certificate), &now) != -1) problem = X509_V_ERR_CERT_NOT_YET_VALID;
    else if (X509_cmp_time(X509_get0_notAfter(certificate), &now) != 1) problem = X509_V_ERR_CERT_HAS_EXPIRED;
    else if (X509_verify(certificate, key) != 1) problem = X509_V_ERR_CERT_SIGNATURE_FAILURE;
    X509_STORE_CTX_set_error(store, problem);
    return problem == X509_V_OK;
}

static const unsigned char protocol_names[] = "\x08http/1.1";
enum { protocol_names_length = sizeof protocol_names - 1 };

static int select_protocol(
    SSL *connection, const unsigned char **chosen, unsigned char *length, const unsigned char *offered, unsigned count,
    void *unused) {
    (void)connection, (void)unused;
    for (unsigned index = 0; index < count; index += 1u + offered[index]) {
        if (offered[index] >= count - index) break;
        if (offered[index] + 1 == protocol_names_length && !memcmp(offered + index, protocol_names, protocol_names_length)) {
            *chosen = offered + index + 1;
            *length = offered[index];
            return SSL_TLSEXT_ERR_OK;
        }
    }
    return SSL_TLSEXT_ERR_NOACK;
}

void *nearshare_tls_context_open(const uint8_t *pem, int length, int is_server) {
    SSL_CTX *context = SSL_CTX_new(is_server ? TLS_server_method() : TLS_client_method());
    BIO *bio = context ? BIO_new_mem_buf(pem, length) : NULL;
    EVP_PKEY *key = bio ? PEM_read_bio_PrivateKey(bio, NULL, NULL, "") : NULL;
    X509 *certificate = key ? PEM_read_bio_X509(bio, NULL, NULL, "") : NULL;
    int is_usable = certificate && SSL_CTX_use_certificate(context, certificate) == 1 &&
                    SSL_CTX_use_PrivateKey(context, key) == 1 && SSL_CTX_check_private_key(context) == 1;
    X509_free(certificate);
    EVP_PKEY_free(key);
    if (bio) BIO_free(bio);
    if (!is_usable) {
        SSL_CTX_free(context);
        return NULL;
    }
    SSL_CTX_ctrl(context, SSL_CTRL_SET_MIN_PROTO_VERSION, TLS1_2_VERSION, NULL);
    SSL_CTX_ctrl(context, SSL_CTRL_SET_MAX_CERT_LIST, longest_certificate_list, NULL);
    // Each connection shows its certificate anew.
    SSL_CTX_ctrl(context, SSL_CTRL_SET_SESS_CACHE_MODE, SSL_SESS_CACHE_OFF, NULL);
    SSL_CTX_set_num_tickets(context, 0);
    SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_TICKET | SSL_OP_NO_COMPRESSION);
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL);
    SSL_CTX_set_cert_verify_callback(context, check_certificate, NULL);
    if (is_server) SSL_CTX_set_alpn_select_cb(context, select_protocol, NULL);
    else SSL_CTX_set_alpn_protos(context, protocol_names, protocol_names_length);
    SSL_CTX_ctrl(context, SSL_CTRL_MODE, SSL_MODE_RELEASE_BUFFERS, NULL);
    return context;
}

void nearshare_tls_context_close(void *context) { SSL_CTX_free(context); }

int nearshare_tls_own_fingerprint(void *context, uint8_t *fingerprint) {
    X509 *certificate = SSL_CTX_get0_certificate(context);
    return certificate && write_fingerprint(certificate, fingerprint);
}

// MARK: Connections

void *nearshare_tls_open(void *context, int is_server, int64_t now) {
    SSL *connection = SSL_new(context);
    BIO *input = BIO_new(BIO_s_mem()), *output = BIO_new(BIO_s_mem());
    if (!connection || !input || !output) {
        SSL_free(connection);
        BIO_free(input);
        BIO_free(output);
        return NULL;
    }
    SSL_set_bio(connection, input, output);
    is_server ? SSL_set_accept_state(connection) : SSL_set_connect_state(connection);
    SSL_set_ex_data(connection, 0, (void *)(intptr_t)now);
    return connection;
}

void nearshare_tls_close(void *connection) { SSL_free(connection); }

static int status(SSL *connection, int code) {
    if (code > 0) return code;
    switch (SSL_get_error(connection, code)) {
    case SSL_ERROR_WANT_READ: return NEARSHARE_TLS_WAIT;
    case SSL_ERROR_ZERO_RETURN: return NEARSHARE_TLS_END;
    default: return NEARSHARE_TLS_FAILED;
    }
}

int nearshare_tls_handshake(void *connection) {
    ERR_clear_error();
    return status(connection, SSL_do_handshake(connection));
}

int nearshare_tls_read(void *connection, void *bytes, int capacity) {
    ERR_clear_error();
    return status(connection, SSL_read(connection, bytes, capacity));
}

int nearshare_tls_write(void *connection, const void *bytes, int length) {
    ERR_clear_error();
    return length == 0 || SSL_write(connection, bytes, length) == length ? 1 : NEARSHARE_TLS_FAILED;
}

void nearshare_tls_finish(void *connection) {
    ERR_clear_error();
    SSL_shutdown(connection);
}

int nearshare_tls_feed(void *connection, const void *bytes, int length) {
    BIO *input = BIO_new_mem_buf(bytes, length);
    if (!input) return 0;
    // At its end more bytes are to come.
    BIO_ctrl(input, BIO_C_SET_BUF_MEM_EOF_RETURN, -1, NULL);
    SSL_set0_rbio(connection, input);
    return 1;
}

int nearshare_tls_has_output(void *connection) {
    return BIO_ctrl(SSL_get_wbio(connection), BIO_CTRL_PENDING, 0, NULL) > 0;
}

int nearshare_tls_drain(void *connection, void *bytes, int capacity) {
    int count = BIO_read(SSL_get_wbio(connection), bytes, capacity);
    return count > 0 ? count : 0;
}

int nearshare_tls_peer_fingerprint(void *connection, uint8_t *fingerprint) {
    X509 *certificate = SSL_get1_peer_certificate(connection);
    if (!certificate) return 0;
    int is_written = write_fingerprint(certificate, fingerprint);
    X509_free(certificate);
    return is_written;
}

void nearshare_tls_error(char *text, int capacity) {
    const char *reason = NULL;
    unsigned long code = ERR_get_error();
    if (code) reason = ERR_reason_error_string(code);
    snprintf(text, (size_t)capacity, "%s", reason ? reason : "unexpected end");
    ERR_clear_error();
}
