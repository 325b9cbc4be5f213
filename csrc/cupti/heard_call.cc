#include "cupti/heard_call.h"

namespace streamguard::cupti {
namespace {

thread_local const HeardCall* current = nullptr;

}  // namespace

const HeardCall* heard_call() { return current; }
HearingCall::HearingCall(const HeardCall& call) { current = &call; }
HearingCall::~HearingCall() { current = nullptr; }

}  // namespace streamguard::cupti
