#pragma once
#include <avahi-common/address.h>
#include <avahi-common/alternative.h>
#include <avahi-common/defs.h>
#include <avahi-common/domain.h>
#include <avahi-common/error.h>
#include <avahi-common/malloc.h>
#include <avahi-common/strlst.h>
#include <avahi-common/simple-watch.h>
#include <avahi-common/timeval.h>
#include <avahi-common/watch.h>
#include <avahi-core/core.h>
#include <avahi-core/log.h>
#include <avahi-core/lookup.h>
#include <avahi-core/publish.h>
#include <avahi-core/rr.h>

// Loaded at run time by CNearshareShims, where they have these names for the linker (lazy_library.h).
#define NEARSHARE_LAZY(name) extern __typeof__(name) name __asm__("nearshare_lazy_" #name);
NEARSHARE_LAZY(avahi_free)
NEARSHARE_LAZY(avahi_strdup)
NEARSHARE_LAZY(avahi_strerror)
NEARSHARE_LAZY(avahi_string_list_add)
NEARSHARE_LAZY(avahi_string_list_add_arbitrary)
NEARSHARE_LAZY(avahi_string_list_get_next)
NEARSHARE_LAZY(avahi_string_list_get_size)
NEARSHARE_LAZY(avahi_string_list_get_text)
NEARSHARE_LAZY(avahi_service_name_join)
NEARSHARE_LAZY(avahi_simple_poll_new)
NEARSHARE_LAZY(avahi_simple_poll_free)
NEARSHARE_LAZY(avahi_simple_poll_get)
NEARSHARE_LAZY(avahi_simple_poll_iterate)
NEARSHARE_LAZY(avahi_set_log_function)
NEARSHARE_LAZY(avahi_server_config_init)
NEARSHARE_LAZY(avahi_server_config_free)
NEARSHARE_LAZY(avahi_server_new)
NEARSHARE_LAZY(avahi_server_free)
NEARSHARE_LAZY(avahi_server_errno)
NEARSHARE_LAZY(avahi_server_get_state)
NEARSHARE_LAZY(avahi_server_get_host_name_fqdn)
NEARSHARE_LAZY(avahi_server_add)
NEARSHARE_LAZY(avahi_server_add_address)
NEARSHARE_LAZY(avahi_s_entry_group_new)
NEARSHARE_LAZY(avahi_s_entry_group_free)
NEARSHARE_LAZY(avahi_s_entry_group_commit)
NEARSHARE_LAZY(avahi_s_entry_group_reset)
NEARSHARE_LAZY(avahi_s_entry_group_get_state)
NEARSHARE_LAZY(avahi_s_entry_group_is_empty)
NEARSHARE_LAZY(avahi_s_service_browser_new)
NEARSHARE_LAZY(avahi_s_service_browser_free)
NEARSHARE_LAZY(avahi_s_record_browser_new)
NEARSHARE_LAZY(avahi_s_record_browser_free)
NEARSHARE_LAZY(avahi_key_new)
NEARSHARE_LAZY(avahi_key_unref)
NEARSHARE_LAZY(avahi_record_new_full)
NEARSHARE_LAZY(avahi_record_unref)
#undef NEARSHARE_LAZY
