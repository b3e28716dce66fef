#define _GNU_SOURCE
#include "nearshare_voice.h"

#include <dlfcn.h>
#include <fcntl.h>

// The C standard has no cast from an object pointer to a function pointer; POSIX allows it for the result of dlsym.
#define LOAD(name)                                                                                                           \
    *(void **)&table->name = dlsym(library, #name);                                                                         \
    if (table->name == NULL) return -1;

// The library stays loaded: its state (such as libasound's configuration) lives as long as the process.
#define LOADER(which, file, FUNCTIONS)                                                                                       \
    int nearshare_load_##which(struct nearshare_##which *table) {                                                           \
        void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);                                                                 \
        if (library == NULL) return -1;                                                                                      \
        FUNCTIONS(LOAD)                                                                                                      \
        return 0;                                                                                                            \
    }

LOADER(opusenc, "libopusenc.so.0", NEARSHARE_OPUSENC_FUNCTIONS)
LOADER(opusfile, "libopusfile.so.0", NEARSHARE_OPUSFILE_FUNCTIONS)
LOADER(sndfile, "libsndfile.so.1", NEARSHARE_SNDFILE_FUNCTIONS)
LOADER(faad, "libfaad.so.2", NEARSHARE_FAAD_FUNCTIONS)
LOADER(pulse, "libpulse.so.0", NEARSHARE_PULSE_FUNCTIONS)
LOADER(alsa, "libasound.so.2", NEARSHARE_ALSA_FUNCTIONS)

int nearshare_opusenc_set(const struct nearshare_opusenc *table, OggOpusEnc *encoder, int request, int value) {
    return table->ope_encoder_ctl(encoder, request, value);
}

const int nearshare_opus_set_bitrate = OPUS_SET_BITRATE_REQUEST;
const int nearshare_opus_set_signal = OPUS_SET_SIGNAL_REQUEST;
const int nearshare_opus_set_complexity = OPUS_SET_COMPLEXITY_REQUEST;
const int nearshare_opus_set_vbr_constraint = OPUS_SET_VBR_CONSTRAINT_REQUEST;
const int nearshare_opus_set_lsb_depth = OPUS_SET_LSB_DEPTH_REQUEST;
const int nearshare_ope_set_decision_delay = OPE_SET_DECISION_DELAY_REQUEST;
const int nearshare_ope_set_comment_padding = OPE_SET_COMMENT_PADDING_REQUEST;
const int nearshare_ope_set_serial = OPE_SET_SERIALNO_REQUEST;

int nearshare_temporary_file(const char *folder) { return open(folder, O_RDWR | O_TMPFILE | O_CLOEXEC, 0600); }

static void say_nothing(const char *file, int line, const char *function, int error, const char *format, ...) {
    (void)file, (void)line, (void)function, (void)error, (void)format;
}

void nearshare_alsa_silence(const struct nearshare_alsa *table) { table->snd_lib_error_set_handler(say_nothing); }
