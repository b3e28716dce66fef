#pragma once
// Inline functions of the header call these: their names have to be known before it.
typedef struct sd_bus sd_bus;
typedef struct sd_bus_message sd_bus_message;
sd_bus *sd_bus_flush_close_unref(sd_bus *bus) __asm__("nearshare_lazy_sd_bus_flush_close_unref");
sd_bus_message *sd_bus_message_unref(sd_bus_message *message) __asm__("nearshare_lazy_sd_bus_message_unref");

#include <systemd/sd-bus.h>

// Loaded at run time by CNearshareShims, where they have these names for the linker (lazy_library.h).
#define NEARSHARE_LAZY(name) extern __typeof__(name) name __asm__("nearshare_lazy_" #name);
NEARSHARE_LAZY(sd_bus_open_system)
NEARSHARE_LAZY(sd_bus_open_user)
NEARSHARE_LAZY(sd_bus_flush)
NEARSHARE_LAZY(sd_bus_get_fd)
NEARSHARE_LAZY(sd_bus_get_events)
NEARSHARE_LAZY(sd_bus_get_timeout)
NEARSHARE_LAZY(sd_bus_process)
NEARSHARE_LAZY(sd_bus_send)
NEARSHARE_LAZY(sd_bus_call)
NEARSHARE_LAZY(sd_bus_call_async)
NEARSHARE_LAZY(sd_bus_match_signal)
NEARSHARE_LAZY(sd_bus_add_match)
NEARSHARE_LAZY(sd_bus_add_fallback)
NEARSHARE_LAZY(sd_bus_error_free)
NEARSHARE_LAZY(sd_bus_message_new_method_call)
NEARSHARE_LAZY(sd_bus_message_new_signal)
NEARSHARE_LAZY(sd_bus_message_new_method_return)
NEARSHARE_LAZY(sd_bus_message_new_method_error)
NEARSHARE_LAZY(sd_bus_message_set_destination)
NEARSHARE_LAZY(sd_bus_message_is_method_call)
NEARSHARE_LAZY(sd_bus_message_ref)
NEARSHARE_LAZY(sd_bus_message_set_expect_reply)
NEARSHARE_LAZY(sd_bus_message_get_error)
NEARSHARE_LAZY(sd_bus_message_get_path)
NEARSHARE_LAZY(sd_bus_message_get_interface)
NEARSHARE_LAZY(sd_bus_message_get_member)
NEARSHARE_LAZY(sd_bus_message_get_sender)
NEARSHARE_LAZY(sd_bus_message_peek_type)
NEARSHARE_LAZY(sd_bus_message_skip)
NEARSHARE_LAZY(sd_bus_message_append_basic)
NEARSHARE_LAZY(sd_bus_message_append_array)
NEARSHARE_LAZY(sd_bus_message_has_signature)
NEARSHARE_LAZY(sd_bus_message_read_basic)
NEARSHARE_LAZY(sd_bus_message_read_array)
NEARSHARE_LAZY(sd_bus_message_open_container)
NEARSHARE_LAZY(sd_bus_message_close_container)
NEARSHARE_LAZY(sd_bus_message_enter_container)
NEARSHARE_LAZY(sd_bus_message_exit_container)
#undef NEARSHARE_LAZY
