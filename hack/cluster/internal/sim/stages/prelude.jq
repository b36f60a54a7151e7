def note($name): .metadata.annotations["sim.flotilla.io/" + $name] // "";
def tag: .image | split(":") | last;
def condition($type): first(.status.conditions[]? | select(.type == $type)) // {};

# What keeps running: containers, native sidecars, ephemeral containers.
def wanted: [.spec.containers[], ((.spec.initContainers // [])[] | select(.restartPolicy == "Always")), (.spec.ephemeralContainers // [])[]];
def known: [.status.containerStatuses, .status.initContainerStatuses, .status.ephemeralContainerStatuses | (. // [])[] | {key: .name, value: .}] | from_entries;

# How a container of the spec is to fare.
def fate($pod):
  if ($pod | note("pull-error")) == "true" or (tag | contains("-no-such-image")) then "pull"
  elif ($pod | note("never-ready")) == "true" or (tag | contains("-never-ready")) then "unready"
  else "ready" end;

def pull_fails: .state.waiting.reason // "" | IN("ErrImagePull", "ImagePullBackOff");
def backs_off: .state.waiting.reason == "CrashLoopBackOff";

def gates_open: . as $pod | all((.spec.readinessGates // [])[]; .conditionType as $type | ($pod | condition($type)).status == "True");
def ready_is_stale: ((condition("ContainersReady").status == "True") and gates_open) != (condition("Ready").status == "True");

def resize_held: {deferred: "Deferred", infeasible: "Infeasible"}[note("resize")] // "";

# What the status stage has to do: "start" or restart a container, wait until a crashed one may start ("crash"),
# change resources ("resize"), only write conditions ("now"), or nothing ("").
def work:
  . as $pod | known as $known
  | [wanted[] | fate($pod) as $fate | $known[.name] as $s
     | if $s == null then "start"
       elif $fate == "pull" then (if $s | pull_fails then "" else "start" end)
       elif $s.image != .image then "start"
       elif $s | backs_off then "crash"
       elif $s.state.waiting then "start"
       elif $s.state.terminated then ""
       elif $s.ready != ($fate == "ready") then "now"
       elif (.resources // {}) != ($s.resources // {}) then "resources"
       else "" end] as $per
  | (if any($per[]; . == "resources") then resize_held else "" end) as $hold
  | if any($per[]; . == "start") then "start"
    elif any($per[]; . == "crash") then "crash"
    elif any($per[]; . == "resources") and $hold == "" then "resize"
    elif any($per[]; . == "now") or ready_is_stale or (condition("PodResizePending").reason // "") != $hold
      or (.metadata.generation != null and .metadata.generation != .status.observedGeneration) then "now"
    else "" end;

def seconds($default): if . == "" then $default else (tonumber? // $default) end;
def milliseconds: . * 1000 | floor | tostring + "ms";

# Which containers end by themselves, and when.
def exits($pod): ($pod | note("crash-loop")) == "true" or ($pod | note("exit-after")) != "" or ($pod | note("exit-code")) != "" or (tag | contains("-crash-loop"));
def exiting: . as $pod | known as $known | [.spec.containers[] | select(exits($pod)) | $known[.name] | select(.state.running)];
