// As opus.h beside this file.
#pragma once
#include <opus/opus_multistream.h>
