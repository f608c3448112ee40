#include "base/json_edit.h"
