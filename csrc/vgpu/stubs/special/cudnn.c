/* torch compares cuDNN's version with the one it was built for: of the same major number any newer
 * one is right. */
#include <stddef.h>

enum { kMajor = 9, kMinor = 99, kNotSupported = 3000 };

size_t cudnnGetVersion(void) { return kMajor * 10000 + kMinor * 100; }

int cudnnGetProperty(int property, int* value) {
  const int version[] = {kMajor, kMinor, 0};
  *value = property >= 0 && property < 3 ? version[property] : 0;
  return 0;
}

size_t cudnnGetCudartVersion(void) { return 13000; }

const char* cudnnGetErrorString(int status) {
  return status == kNotSupported ? "CUDNN_STATUS_NOT_SUPPORTED (the virtual GPU has no cuDNN)"
                                 : "no error text on the virtual GPU";
}

void cudnnGetLastErrorString(char* text, size_t bytes) {
  if (bytes > 0) *text = '\0';
}
