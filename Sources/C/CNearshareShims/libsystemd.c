#include "lazy_library.h"
#include "nearshare_shims.h"

#include "../CSystemd/shim.h"

#define FUNCTIONS(F)                                                                                                   \
    F(int, sd_bus_open_system, (sd_bus **bus), (bus))                                                                  \
    F(int, sd_bus_open_user, (sd_bus **bus), (bus))                                                                    \
    F(sd_bus *, sd_bus_flush_close_unref, (sd_bus *bus), (bus))                                                        \
    F(int, sd_bus_flush, (sd_bus *bus), (bus))                                                                         \
    F(int, sd_bus_get_fd, (sd_bus *bus), (bus))                                                                        \
    F(int, sd_bus_get_events, (sd_bus *bus), (bus))                                                                    \
    F(int, sd_bus_get_timeout, (sd_bus *bus, uint64_t *timeout), (bus, timeout))                                       \
    F(int, sd_bus_process, (sd_bus *bus, sd_bus_message **message), (bus, message))                                    \
    F(int, sd_bus_send, (sd_bus *bus, sd_bus_message *message, uint64_t *cookie), (bus, message, cookie))              \
    F(int, sd_bus_call,                                                                                                \
      (sd_bus *bus, sd_bus_message *message, uint64_t timeout, sd_bus_error *error, sd_bus_message **reply),           \
      (bus, message, timeout, error, reply))                                                                           \
    F(int, sd_bus_call_async,                                                                                          \
      (sd_bus *bus, sd_bus_slot **slot, sd_bus_message *message, sd_bus_message_handler_t callback, void *context,     \
       uint64_t timeout),                                                                                              \
      (bus, slot, message, callback, context, timeout))                                                                \
    F(int, sd_bus_match_signal,                                                                                        \
      (sd_bus *bus, sd_bus_slot **slot, const char *sender, const char *path, const char *interface,                   \
       const char *member, sd_bus_message_handler_t callback, void *context),                                          \
      (bus, slot, sender, path, interface, member, callback, context))                                                 \
    F(int, sd_bus_add_match,                                                                                           \
      (sd_bus *bus, sd_bus_slot **slot, const char *match, sd_bus_message_handler_t callback, void *context),          \
      (bus, slot, match, callback, context))                                                                           \
    F(int, sd_bus_add_fallback,                                                                                        \
      (sd_bus *bus, sd_bus_slot **slot, const char *prefix, sd_bus_message_handler_t callback, void *context),         \
      (bus, slot, prefix, callback, context))                                                                          \
    F(void, sd_bus_error_free, (sd_bus_error *error), (error))                                                         \
    F(int, sd_bus_message_new_method_call,                                                                             \
      (sd_bus *bus, sd_bus_message **message, const char *destination, const char *path, const char *interface,        \
       const char *member),                                                                                            \
      (bus, message, destination, path, interface, member))                                                            \
    F(int, sd_bus_message_new_signal,                                                                                  \
      (sd_bus *bus, sd_bus_message **message, const char *path, const char *interface, const char *member),            \
      (bus, message, path, interface, member))                                                                         \
    F(int, sd_bus_message_new_method_return, (sd_bus_message *call, sd_bus_message **message), (call, message))        \
    F(int, sd_bus_message_new_method_error,                                                                            \
      (sd_bus_message *call, sd_bus_message **message, const sd_bus_error *error), (call, message, error))             \
    F(int, sd_bus_message_set_destination, (sd_bus_message *message, const char *destination), (message, destination)) \
    F(int, sd_bus_message_is_method_call, (sd_bus_message *message, const char *interface, const char *member),        \
      (message, interface, member))                                                                                    \
    F(sd_bus_message *, sd_bus_message_ref, (sd_bus_message *message), (message))                                      \
    F(sd_bus_message *, sd_bus_message_unref, (sd_bus_message *message), (message))                                    \
    F(int, sd_bus_message_set_expect_reply, (sd_bus_message *message, int expected), (message, expected))              \
    F(const sd_bus_error *, sd_bus_message_get_error, (sd_bus_message *message), (message))                            \
    F(const char *, sd_bus_message_get_path, (sd_bus_message *message), (message))                                     \
    F(const char *, sd_bus_message_get_interface, (sd_bus_message *message), (message))                                \
    F(const char *, sd_bus_message_get_member, (sd_bus_message *message), (message))                                   \
    F(const char *, sd_bus_message_get_sender, (sd_bus_message *message), (message))                                   \
    F(int, sd_bus_message_peek_type, (sd_bus_message *message, char *type, const char **contents),                     \
      (message, type, contents))                                                                                       \
    F(int, sd_bus_message_skip, (sd_bus_message *message, const char *types), (message, types))                        \
    F(int, sd_bus_message_append_basic, (sd_bus_message *message, char type, const void *value),                       \
      (message, type, value))                                                                                          \
    F(int, sd_bus_message_append_array, (sd_bus_message *message, char type, const void *values, size_t size),         \
      (message, type, values, size))                                                                                   \
    F(int, sd_bus_message_has_signature, (sd_bus_message *message, const char *signature), (message, signature))        \
    F(int, sd_bus_message_read_basic, (sd_bus_message *message, char type, void *value), (message, type, value))       \
    F(int, sd_bus_message_read_array, (sd_bus_message *message, char type, const void **values, size_t *size),         \
      (message, type, values, size))                                                                                   \
    F(int, sd_bus_message_open_container, (sd_bus_message *message, char type, const char *contents),                  \
      (message, type, contents))                                                                                       \
    F(int, sd_bus_message_close_container, (sd_bus_message *message), (message))                                       \
    F(int, sd_bus_message_enter_container, (sd_bus_message *message, char type, const char *contents),                 \
      (message, type, contents))                                                                                       \
    F(int, sd_bus_message_exit_container, (sd_bus_message *message), (message))

LAZY_LIBRARY(nearshare_load_systemd, "libsystemd.so.0", FUNCTIONS)
