#pragma once

#include <functional>

namespace streamguard::hooks {

/// Sets who is told the id of every new finding; an empty function tells nobody.
///
/// The sink is called on the thread that issued the second access, after its op, with the GIL held
/// and no lock of ours. Ops that the sink itself issues are observed, but announced later.
void set_sink(std::function<void(int)> sink);

/// Sets who empties the recorder when it is full; an empty function: nobody. Called as the sink is.
void set_drain(std::function<void()> drain);

/// Hands new findings to the sink, if there are any; inside a callback of CUPTI the next op does.
///
/// REQUIRES: no lock of ours or of torch's is held.
/// Cost: one atomic load when there is no news.
void announce_news();

}  // namespace streamguard::hooks
