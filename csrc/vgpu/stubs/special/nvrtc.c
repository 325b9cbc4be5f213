/* Answers that callers of NVRTC read: a version, and sizes of results that do not exist. */
#include <stddef.h>

int nvrtcVersion(int* major, int* minor) {
  *major = 13;
  *minor = 0;
  return 0;
}

int nvrtcGetProgramLogSize(void* program, size_t* size) {
  (void)program;
  *size = 1;
  return 0;
}

int nvrtcGetProgramLog(void* program, char* log) {
  (void)program;
  *log = '\0';
  return 0;
}

int nvrtcGetPTXSize(void* program, size_t* size) {
  (void)program;
  *size = 1;
  return 0;
}

int nvrtcGetPTX(void* program, char* ptx) {
  (void)program;
  *ptx = '\0';
  return 0;
}

int nvrtcGetCUBINSize(void* program, size_t* size) {
  (void)program;
  *size = 1;
  return 0;
}

int nvrtcGetCUBIN(void* program, char* cubin) {
  (void)program;
  *cubin = '\0';
  return 0;
}

int nvrtcGetLoweredName(void* program, const char* name, const char** lowered) {
  (void)program;
  *lowered = name;
  return 0;
}

const char* nvrtcGetErrorString(int result) {
  (void)result;
  return "no error text on the virtual GPU";
}
