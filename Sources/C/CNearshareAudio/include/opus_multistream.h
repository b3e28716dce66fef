// See opus.h in this directory.
#pragma once
#include <opus/opus_multistream.h>
