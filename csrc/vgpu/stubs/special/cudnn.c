/* torch compares cuDNN's version with the one it was built for. */
#include <stddef.h>

size_t cudnnGetVersion(void) { return 92000; }

size_t cudnnGetCudartVersion(void) { return 13000; }

const char* cudnnGetErrorString(int status) {
  (void)status;
  return "no error text on the virtual GPU";
}
