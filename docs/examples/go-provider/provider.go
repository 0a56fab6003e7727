package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"goprovider/pb"
)

// An edge is the one way an operation takes: from a stable state through a transitional one to a stable one.
type edge struct {
	name                   string
	source, during, target pb.MachineState
}

var (
	create    = edge{"create", pb.MachineState_MACHINE_STATE_SPECULATIVE, pb.MachineState_MACHINE_STATE_CREATING, pb.MachineState_MACHINE_STATE_IDLE}
	configure = edge{"configure", pb.MachineState_MACHINE_STATE_IDLE, pb.MachineState_MACHINE_STATE_CONFIGURING, pb.MachineState_MACHINE_STATE_CONFIGURED}
	drain     = edge{"drain", pb.MachineState_MACHINE_STATE_CONFIGURED, pb.MachineState_MACHINE_STATE_DRAINING, pb.MachineState_MACHINE_STATE_IDLE}
	remove    = edge{"delete", pb.MachineState_MACHINE_STATE_IDLE, pb.MachineState_MACHINE_STATE_DELETING, pb.MachineState_MACHINE_STATE_SPECULATIVE}
)

// A token is what a shard stamps on every call that changes something.
type token struct {
	shard           string
	epoch, sequence int64
}

func (t token) empty() bool { return t == token{} }

// newerThan compares epoch first; an equal token is not newer.
func (t token) newerThan(seen token) bool {
	return t.epoch > seen.epoch || (t.epoch == seen.epoch && t.sequence > seen.sequence)
}

// A pair is what a fence is kept for: one shard and one machine. Neither fences another.
type pair struct{ shard, machine string }

type entry struct {
	machine    *pb.Machine
	operations map[string]string // kind to id, of the last operation of each kind
	changed    uint64            // revision of its last change
}

// The provider keeps everything in memory; a real one makes each change durable before it answers.
type provider struct {
	pb.UnimplementedCapacityProviderServer

	mutex    sync.Mutex
	entries  map[string]*entry
	marks    map[pair]token
	revision uint64
	started  int64
	count    uint64
	listed   string        // the last machine of the last capped listing
	takes    time.Duration // how long each operation takes
}

func newProvider(slots int, takes time.Duration) *provider {
	p := &provider{entries: map[string]*entry{}, marks: map[pair]token{}, started: time.Now().UnixNano(), takes: takes}
	size := &pb.Resources{Resources: map[string]string{"cpu": "4", "memory": "16Gi"}}
	for number := range slots {
		id := fmt.Sprintf("go/%04d", number)
		p.entries[id] = &entry{operations: map[string]string{}, machine: &pb.Machine{
			Id:           id,
			State:        pb.MachineState_MACHINE_STATE_SPECULATIVE,
			InstanceType: "gopher-4",
			Zone:         "zone-a",
			CapacityType: pb.CapacityType_CAPACITY_TYPE_ON_DEMAND,
			PricePerHour: 0.2,
			Resources:    size,
			Allocatable:  size,
		}}
	}
	return p
}

func (p *provider) Create(_ context.Context, r *pb.CreateRequest) (*pb.TransitionAck, error) {
	t := token{r.GetShardId(), r.GetShardEpoch(), r.GetSequenceNumber()}
	return p.begin(create, r.GetMachineId(), t, nil, func(m *pb.Machine) {
		m.Host = &pb.HostRef{Provider: "go", Ref: "host-of-" + m.GetId()}
	})
}

func (p *provider) Configure(_ context.Context, r *pb.ConfigureRequest) (*pb.TransitionAck, error) {
	t := token{r.GetShardId(), r.GetShardEpoch(), r.GetSequenceNumber()}
	// The binding is visible from the moment the state is entered. The blob would go to the host, and nowhere else.
	return p.begin(configure, r.GetMachineId(), t, func(m *pb.Machine) {
		m.Cluster = r.GetClusterId()
		m.ShardMetadata = r.GetShardMetadata()
	}, nil)
}

func (p *provider) Drain(_ context.Context, r *pb.DrainRequest) (*pb.TransitionAck, error) {
	if r.GetGracePeriodSeconds() < 0 {
		return nil, status.Errorf(codes.InvalidArgument, "grace_period_seconds: found %d, allowed is 0 or more", r.GetGracePeriodSeconds())
	}
	t := token{r.GetShardId(), r.GetShardEpoch(), r.GetSequenceNumber()}
	return p.begin(drain, r.GetMachineId(), t, nil, func(m *pb.Machine) {
		m.Cluster, m.ShardMetadata = "", nil
	})
}

func (p *provider) Delete(_ context.Context, r *pb.DeleteRequest) (*pb.TransitionAck, error) {
	t := token{r.GetShardId(), r.GetShardEpoch(), r.GetSequenceNumber()}
	return p.begin(remove, r.GetMachineId(), t, nil, func(m *pb.Machine) { m.Host = nil })
}

func (p *provider) Get(_ context.Context, r *pb.MachineRef) (*pb.Machine, error) {
	if r.GetId() == "" {
		return nil, status.Error(codes.InvalidArgument, "id: found nothing, allowed is the id of a machine")
	}
	p.mutex.Lock()
	defer p.mutex.Unlock()
	found, known := p.entries[r.GetId()]
	if !known {
		return nil, status.Errorf(codes.NotFound, "there is no machine %q", r.GetId())
	}
	return copied(found.machine), nil
}

func (p *provider) List(_ context.Context, r *pb.ListFilter) (*pb.MachineList, error) {
	for _, state := range r.GetStates() {
		if state < pb.MachineState_MACHINE_STATE_SPECULATIVE || state > pb.MachineState_MACHINE_STATE_FAILED {
			return nil, status.Errorf(codes.InvalidArgument, "states: found %d, allowed is 1 to 8", state)
		}
	}
	p.mutex.Lock()
	defer p.mutex.Unlock()
	since, partial := p.cursor(r.GetSinceRevision())
	answer := &pb.MachineList{Revision: strconv.AppendUint(nil, p.revision, 10)}
	var ids []string
	for _, id := range slices.Sorted(maps.Keys(p.entries)) {
		found := p.entries[id]
		if partial && found.changed <= since {
			continue
		}
		if len(r.GetStates()) > 0 && !slices.Contains(r.GetStates(), found.machine.GetState()) {
			continue
		}
		ids = append(ids, id)
	}
	if limit := int(r.GetMaxResults()); limit > 0 && limit < len(ids) {
		ids = p.capped(ids, limit)
	}
	for _, id := range ids {
		answer.Machines = append(answer.Machines, copied(p.entries[id].machine))
	}
	return answer, nil
}

// capped begins after the last machine of the capped listing before and wraps: asking for one machine three times gives three.
func (p *provider) capped(ids []string, limit int) []string {
	first := 0
	for first < len(ids) && ids[first] <= p.listed {
		first++
	}
	taken := append(slices.Clone(ids[first:]), ids[:first]...)[:limit]
	p.listed = taken[limit-1]
	return taken
}

// cursor reads a revision of ours; whatever else it is given means a full list, never an error.
func (p *provider) cursor(since []byte) (uint64, bool) {
	for _, digit := range since {
		if digit < '0' || digit > '9' {
			return 0, false
		}
	}
	number, err := strconv.ParseUint(string(since), 10, 64)
	return number, err == nil && number <= p.revision
}

// begin is the critical section of a call. The order of its checks is contract.
func (p *provider) begin(e edge, id string, t token, accept, finish func(*pb.Machine)) (*pb.TransitionAck, error) {
	if id == "" {
		return nil, status.Error(codes.InvalidArgument, "machine_id: found nothing, allowed is the id of a machine")
	}
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if !t.empty() {
		// The mark moves at once, whatever follows, also for a machine that nobody knows.
		key := pair{t.shard, id}
		if seen, met := p.marks[key]; met && !t.newerThan(seen) {
			return nil, status.Errorf(codes.FailedPrecondition, "epoch %d sequence %d is not newer than epoch %d sequence %d", t.epoch, t.sequence, seen.epoch, seen.sequence)
		}
		p.marks[key] = t
	}
	found, known := p.entries[id]
	if !known {
		return nil, status.Errorf(codes.NotFound, "there is no machine %q", id)
	}
	state := found.machine.GetState()
	operation, recorded := found.operations[e.name]
	if recorded && (state == e.during || state == e.target) {
		return &pb.TransitionAck{OperationId: operation, Machine: copied(found.machine)}, nil
	}
	if state != e.source {
		return nil, status.Errorf(codes.Internal, "%s begins at %s, and the machine is %s", e.name, e.source, state)
	}
	p.count++
	operation = fmt.Sprintf("%x-%d", p.started, p.count)
	found.operations[e.name] = operation
	p.change(found, e.during, accept)
	time.AfterFunc(p.takes, func() { p.end(found, e, finish) })
	return &pb.TransitionAck{OperationId: operation, Machine: copied(found.machine)}, nil
}

// end finishes the work. Nothing else leads out of a transitional state here, so the machine is still where it was.
func (p *provider) end(found *entry, e edge, finish func(*pb.Machine)) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.change(found, e.target, finish)
}

func (p *provider) change(found *entry, state pb.MachineState, more func(*pb.Machine)) {
	found.machine.State = state
	if more != nil {
		more(found.machine)
	}
	p.revision++
	found.changed = p.revision
}

// copied lets a record leave the critical section: gRPC encodes an answer after the handler returned.
func copied(machine *pb.Machine) *pb.Machine {
	return proto.Clone(machine).(*pb.Machine)
}
