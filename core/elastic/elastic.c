#include "elastic/elastic.h"
