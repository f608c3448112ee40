#include "lock/manager.h"
