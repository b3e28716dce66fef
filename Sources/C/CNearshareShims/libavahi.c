#include "lazy_library.h"
#include "nearshare_shims.h"

#include <avahi-common/domain.h>
#include <avahi-common/error.h>
#include <avahi-common/malloc.h>
#include <avahi-common/simple-watch.h>
#include <avahi-common/strlst.h>
#include <avahi-core/core.h>
#include <avahi-core/log.h>
#include <avahi-core/lookup.h>
#include <avahi-core/publish.h>
#include <avahi-core/rr.h>

// The functions of libavahi-common are found through libavahi-core, which depends on it.
#define FUNCTIONS(F)                                                                                                   \
    F(void, avahi_free, (void *memory), (memory))                                                                      \
    F(char *, avahi_strdup, (const char *text), (text))                                                                \
    F(const char *, avahi_strerror, (int error), (error))                                                              \
    F(AvahiStringList *, avahi_string_list_add, (AvahiStringList *list, const char *text), (list, text))               \
    F(AvahiStringList *, avahi_string_list_add_arbitrary, (AvahiStringList *list, const uint8_t *text, size_t size),   \
      (list, text, size))                                                                                              \
    F(AvahiStringList *, avahi_string_list_get_next, (AvahiStringList *list), (list))                                  \
    F(size_t, avahi_string_list_get_size, (AvahiStringList *list), (list))                                             \
    F(uint8_t *, avahi_string_list_get_text, (AvahiStringList *list), (list))                                          \
    F(int, avahi_service_name_join,                                                                                    \
      (char *buffer, size_t size, const char *name, const char *type, const char *domain),                             \
      (buffer, size, name, type, domain))                                                                              \
    F(AvahiSimplePoll *, avahi_simple_poll_new, (void), ())                                                            \
    F(void, avahi_simple_poll_free, (AvahiSimplePoll *poll), (poll))                                                   \
    F(const AvahiPoll *, avahi_simple_poll_get, (AvahiSimplePoll *poll), (poll))                                       \
    F(int, avahi_simple_poll_iterate, (AvahiSimplePoll *poll, int milliseconds), (poll, milliseconds))                 \
    F(void, avahi_set_log_function, (AvahiLogFunction function), (function))                                           \
    F(AvahiServerConfig *, avahi_server_config_init, (AvahiServerConfig *config), (config))                            \
    F(void, avahi_server_config_free, (AvahiServerConfig *config), (config))                                           \
    F(AvahiServer *, avahi_server_new,                                                                                 \
      (const AvahiPoll *poll, const AvahiServerConfig *config, AvahiServerCallback callback, void *context,            \
       int *error),                                                                                                    \
      (poll, config, callback, context, error))                                                                        \
    F(void, avahi_server_free, (AvahiServer *server), (server))                                                        \
    F(int, avahi_server_errno, (AvahiServer *server), (server))                                                        \
    F(AvahiServerState, avahi_server_get_state, (AvahiServer *server), (server))                                       \
    F(const char *, avahi_server_get_host_name_fqdn, (AvahiServer *server), (server))                                  \
    F(int, avahi_server_add,                                                                                           \
      (AvahiServer *server, AvahiSEntryGroup *group, AvahiIfIndex interface, AvahiProtocol protocol,                   \
       AvahiPublishFlags flags, AvahiRecord *record),                                                                  \
      (server, group, interface, protocol, flags, record))                                                             \
    F(int, avahi_server_add_address,                                                                                   \
      (AvahiServer *server, AvahiSEntryGroup *group, AvahiIfIndex interface, AvahiProtocol protocol,                   \
       AvahiPublishFlags flags, const char *name, AvahiAddress *address),                                              \
      (server, group, interface, protocol, flags, name, address))                                                      \
    F(AvahiSEntryGroup *, avahi_s_entry_group_new,                                                                     \
      (AvahiServer *server, AvahiSEntryGroupCallback callback, void *context), (server, callback, context))            \
    F(void, avahi_s_entry_group_free, (AvahiSEntryGroup *group), (group))                                              \
    F(int, avahi_s_entry_group_commit, (AvahiSEntryGroup *group), (group))                                             \
    F(void, avahi_s_entry_group_reset, (AvahiSEntryGroup *group), (group))                                             \
    F(AvahiEntryGroupState, avahi_s_entry_group_get_state, (AvahiSEntryGroup *group), (group))                         \
    F(int, avahi_s_entry_group_is_empty, (AvahiSEntryGroup *group), (group))                                           \
    F(AvahiSServiceBrowser *, avahi_s_service_browser_new,                                                             \
      (AvahiServer *server, AvahiIfIndex interface, AvahiProtocol protocol, const char *type, const char *domain,      \
       AvahiLookupFlags flags, AvahiSServiceBrowserCallback callback, void *context),                                  \
      (server, interface, protocol, type, domain, flags, callback, context))                                           \
    F(void, avahi_s_service_browser_free, (AvahiSServiceBrowser *browser), (browser))                                  \
    F(AvahiSRecordBrowser *, avahi_s_record_browser_new,                                                               \
      (AvahiServer *server, AvahiIfIndex interface, AvahiProtocol protocol, AvahiKey *key, AvahiLookupFlags flags,     \
       AvahiSRecordBrowserCallback callback, void *context),                                                           \
      (server, interface, protocol, key, flags, callback, context))                                                    \
    F(void, avahi_s_record_browser_free, (AvahiSRecordBrowser *browser), (browser))                                    \
    F(AvahiKey *, avahi_key_new, (const char *name, uint16_t class, uint16_t type), (name, class, type))               \
    F(void, avahi_key_unref, (AvahiKey *key), (key))                                                                   \
    F(AvahiRecord *, avahi_record_new_full, (const char *name, uint16_t class, uint16_t type, uint32_t lifetime),      \
      (name, class, type, lifetime))                                                                                   \
    F(void, avahi_record_unref, (AvahiRecord *record), (record))

LAZY_LIBRARY(nearshare_load_avahi, "libavahi-core.so.7", FUNCTIONS)
