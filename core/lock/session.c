#include "lock/session.h"
