// opusenc.h and opusfile.h ask for <opus.h>, which Debian keeps one folder further down.
#pragma once
#include <opus/opus.h>
