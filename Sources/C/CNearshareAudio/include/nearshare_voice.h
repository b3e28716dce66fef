// The libraries that only voice notes need, loaded when the first note is recorded or played: if they were linked, each start of
// the tool would load about forty libraries.
//
// A table contains one pointer for each function, with the type in the library's own header, so that a wrong call does not
// compile. A table is filled once and then only read.
#pragma once
#include <alsa/asoundlib.h>
#include <neaacdec.h>
#include <opus/opusenc.h>
#include <opus/opusfile.h>
#include <pulse/pulseaudio.h>
#include <sndfile.h>

#define NEARSHARE_OPUSENC_FUNCTIONS(X)                                                                                       \
    X(ope_comments_create) X(ope_comments_add) X(ope_comments_destroy) X(ope_encoder_create_callbacks) X(ope_encoder_write)  \
    X(ope_encoder_drain) X(ope_encoder_destroy) X(ope_strerror) X(ope_encoder_ctl)

#define NEARSHARE_OPUSFILE_FUNCTIONS(X)                                                                                      \
    X(op_open_callbacks) X(op_free) X(op_head) X(op_link_count) X(op_pcm_total) X(op_pcm_tell) X(op_pcm_seek) X(op_read)     \
    X(op_read_stereo)

#define NEARSHARE_SNDFILE_FUNCTIONS(X)                                                                                       \
    X(sf_open_virtual) X(sf_readf_float) X(sf_strerror) X(sf_error) X(sf_close)

#define NEARSHARE_FAAD_FUNCTIONS(X)                                                                                          \
    X(NeAACDecOpen) X(NeAACDecGetCurrentConfiguration) X(NeAACDecSetConfiguration) X(NeAACDecInit2) X(NeAACDecDecode)        \
    X(NeAACDecPostSeekReset) X(NeAACDecGetErrorMessage) X(NeAACDecClose)

#define NEARSHARE_PULSE_FUNCTIONS(X)                                                                                         \
    X(pa_mainloop_new) X(pa_mainloop_free) X(pa_mainloop_get_api) X(pa_mainloop_prepare) X(pa_mainloop_poll)                 \
    X(pa_mainloop_dispatch) X(pa_context_new) X(pa_context_connect) X(pa_context_disconnect) X(pa_context_unref)             \
    X(pa_context_get_state) X(pa_context_errno) X(pa_context_get_server_info) X(pa_context_get_source_info_list)             \
    X(pa_context_get_sink_info_list) X(pa_operation_get_state) X(pa_operation_unref) X(pa_operation_cancel)                  \
    X(pa_stream_new) X(pa_stream_unref) X(pa_stream_connect_record) X(pa_stream_connect_playback) X(pa_stream_disconnect)    \
    X(pa_stream_get_state) X(pa_stream_peek) X(pa_stream_drop) X(pa_stream_readable_size) X(pa_stream_write)                 \
    X(pa_stream_writable_size) X(pa_stream_drain) X(pa_stream_flush) X(pa_stream_cork) X(pa_stream_get_latency)              \
    X(pa_stream_is_suspended) X(pa_strerror)

#define NEARSHARE_ALSA_FUNCTIONS(X)                                                                                          \
    X(snd_pcm_open) X(snd_pcm_close) X(snd_pcm_hw_params_malloc) X(snd_pcm_hw_params_free) X(snd_pcm_hw_params_any)          \
    X(snd_pcm_hw_params_set_access) X(snd_pcm_hw_params_set_format) X(snd_pcm_hw_params_set_channels)                        \
    X(snd_pcm_hw_params_set_rate_resample) X(snd_pcm_hw_params_set_rate) X(snd_pcm_hw_params_set_buffer_time_near)           \
    X(snd_pcm_hw_params_set_period_time_near) X(snd_pcm_hw_params) X(snd_pcm_wait) X(snd_pcm_start) X(snd_pcm_readi)         \
    X(snd_pcm_writei) X(snd_pcm_recover) X(snd_pcm_drain) X(snd_pcm_drop) X(snd_pcm_prepare) X(snd_pcm_delay)                \
    X(snd_strerror) X(snd_device_name_hint) X(snd_device_name_get_hint) X(snd_device_name_free_hint)                         \
    X(snd_lib_error_set_handler) X(snd_config_update_free_global)

#define NEARSHARE_FIELD(name) __typeof__(name) *name;
struct nearshare_opusenc { NEARSHARE_OPUSENC_FUNCTIONS(NEARSHARE_FIELD) };
struct nearshare_opusfile { NEARSHARE_OPUSFILE_FUNCTIONS(NEARSHARE_FIELD) };
struct nearshare_sndfile { NEARSHARE_SNDFILE_FUNCTIONS(NEARSHARE_FIELD) };
struct nearshare_faad { NEARSHARE_FAAD_FUNCTIONS(NEARSHARE_FIELD) };
struct nearshare_pulse { NEARSHARE_PULSE_FUNCTIONS(NEARSHARE_FIELD) };
struct nearshare_alsa { NEARSHARE_ALSA_FUNCTIONS(NEARSHARE_FIELD) };
#undef NEARSHARE_FIELD

/// Each function loads its library and fills the table. Returns 0, or -1 when the library, or a function in it, is missing.
int nearshare_load_opusenc(struct nearshare_opusenc *table);
int nearshare_load_opusfile(struct nearshare_opusfile *table);
int nearshare_load_sndfile(struct nearshare_sndfile *table);
int nearshare_load_faad(struct nearshare_faad *table);
int nearshare_load_pulse(struct nearshare_pulse *table);
int nearshare_load_alsa(struct nearshare_alsa *table);

/// ope_encoder_ctl() is variadic: this is the form for requests with one integer argument.
int nearshare_opusenc_set(const struct nearshare_opusenc *table, OggOpusEnc *encoder, int request, int value);

/// Requests whose macros the importer drops.
extern const int nearshare_opus_set_bitrate;
extern const int nearshare_opus_set_signal;
extern const int nearshare_opus_set_complexity;
extern const int nearshare_opus_set_vbr_constraint;
extern const int nearshare_opus_set_lsb_depth;
extern const int nearshare_ope_set_decision_delay;
extern const int nearshare_ope_set_comment_padding;
extern const int nearshare_ope_set_serial;

/// open(2) with O_TMPFILE, which glibc declares for GNU sources only: opens an unnamed file.
int nearshare_temporary_file(const char *folder);

/// alsa-lib writes each failure to standard error, between the tool's own lines, unless a handler is set, which is variadic.
void nearshare_alsa_silence(const struct nearshare_alsa *table);
