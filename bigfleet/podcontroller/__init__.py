"""The unschedulable-pod controller: writes one CapacityRequest per pod."""
