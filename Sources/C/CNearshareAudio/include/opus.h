// opusenc.h and opusfile.h include <opus.h>, which Debian installs in a subdirectory.
#pragma once
#include <opus/opus.h>
