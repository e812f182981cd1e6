"""What the server's record and its log of requests say, and the snapshots of a sandbox."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Dict, List, Literal, Mapping, Optional, Sequence


def _time(text: Optional[str]) -> Optional[datetime]:
    return None if text is None else datetime.fromisoformat(text.replace("Z", "+00:00"))


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


@dataclass(frozen=True)
class SandboxUsage:
    """What a sandbox has used, from its beginning on."""

    cpu: float
    """Processor time, in seconds."""
    peak_memory: int
    average_memory: int
    disk: int
    """Bytes that it had written and still held."""
    disk_read: int
    disk_written: int
    received: int
    """Bytes received over the network."""
    sent: int
    out_of_memory_kills: int

    @classmethod
    def from_wire(cls, data: Mapping[str, Any]) -> SandboxUsage:
        return cls(
            cpu=data["cpuSeconds"],
            peak_memory=data["memoryPeakBytes"],
            average_memory=data["memoryAverageBytes"],
            disk=data["diskBytes"],
            disk_read=data["diskReadBytes"],
            disk_written=data["diskWrittenBytes"],
            received=data["receivedBytes"],
            sent=data["sentBytes"],
            out_of_memory_kills=data["outOfMemoryKills"],
        )


@dataclass(frozen=True)
class SandboxRecord:
    """A sandbox in the server's record, which is there after its end, too."""

    sandbox_id: str
    template: str
    """First name of its template."""
    template_id: str
    state: Literal["starting", "running", "paused", "stopping", "stuck", "ended"]
    created_at: datetime
    started_at: Optional[datetime]
    end_at: Optional[datetime]
    """When it ends, or ended."""
    end_reason: Optional[str]
    """Why it ended: `killed`, `timeout`, `out_of_memory`, `disk_full`, `crashed` …"""
    usage: Optional[SandboxUsage]
    cpu_count: int
    memory_mb: int
    disk_size_mb: int
    metadata: Dict[str, str]

    @classmethod
    def from_wire(cls, data: Mapping[str, Any]) -> SandboxRecord:
        usage = data.get("usage")
        return cls(
            sandbox_id=data["sandboxID"],
            template=data["alias"],
            template_id=data["templateID"],
            state=data["state"],
            created_at=_moment(data["createdAt"]),
            started_at=_time(data.get("startedAt")),
            end_at=_time(data.get("endAt")),
            end_reason=data.get("endReason"),
            usage=None if usage is None else SandboxUsage.from_wire(usage),
            cpu_count=data["cpuCount"],
            memory_mb=data["memoryMB"],
            disk_size_mb=data["diskSizeMB"],
            metadata=dict(data["metadata"]),
        )


@dataclass(frozen=True)
class SandboxRequest:
    """A request of a sandbox to a host that it reaches by name."""

    number: int
    """Its place among them, from 1. `requests(after=number)` begins behind it."""
    at: datetime
    """When it had ended."""
    host: Optional[str]
    port: int
    method: Optional[str]
    """Missing, as path and status, where it is encrypted."""
    path: Optional[str]
    status: Optional[int]
    sent: int
    received: int
    rule: Optional[str]
    """The rule that allowed it."""
    refusal: Optional[str]
    """Why it was refused, or did not come about."""

    @classmethod
    def from_wire(cls, data: Mapping[str, Any]) -> SandboxRequest:
        return cls(
            number=data["number"],
            at=_moment(data["timestamp"]),
            host=data.get("host"),
            port=data["port"],
            method=data.get("method"),
            path=data.get("path"),
            status=data.get("status"),
            sent=data["sentBytes"],
            received=data["receivedBytes"],
            rule=data.get("rule"),
            refusal=data.get("refusal"),
        )


@dataclass
class Snapshot:
    """A snapshot of a sandbox, with those that were taken after going on from it."""

    snapshot_id: str
    """Make sandboxes of it by this, or roll back to it."""
    names: List[str]
    checkpoint_id: str
    parent_id: Optional[str]
    memory: bool
    """Whether the memory is in it."""
    size: int
    created_at: datetime
    children: List[Snapshot] = field(default_factory=list)

    @classmethod
    def from_wire(cls, data: Mapping[str, Any]) -> Snapshot:
        return cls(
            snapshot_id=data["snapshotID"],
            names=list(data["names"]),
            checkpoint_id=data["checkpointID"],
            parent_id=data.get("parentID"),
            memory=data["memory"],
            size=data["sizeBytes"],
            created_at=_moment(data["createdAt"]),
        )


def tree(listed: Sequence[Mapping[str, Any]]) -> List[Snapshot]:
    """The first snapshots, with the others below them, each list the oldest first."""
    snapshots = {data["checkpointID"]: Snapshot.from_wire(data) for data in reversed(listed)}
    roots: List[Snapshot] = []
    for snapshot in snapshots.values():
        parent = snapshots.get(snapshot.parent_id or "")
        (roots if parent is None else parent.children).append(snapshot)
    return roots


@dataclass(frozen=True)
class Resumed:
    """What was kept of a sandbox that went on from an image of it."""

    kept_in: Optional[Literal["memory", "checkpoint", "files"]]
    lost: List[str]
    """What was not: `processes`, `memory`, `memory_files`, `tcp_connections`."""

    @classmethod
    def from_wire(cls, data: Mapping[str, Any]) -> Resumed:
        return cls(kept_in=data.get("keptIn"), lost=list(data.get("lost") or []))


@dataclass(frozen=True)
class Checkpoint:
    """A state of a context that can be gone back to."""

    id: str
    parent_id: Optional[str]
    """The state that it descends from."""
    created_at: datetime
    current: bool
    """Whether the context descends from it now."""
    lost: Optional[str]
    """Why it cannot be gone back to any more, if its process has ended."""

    @classmethod
    def from_wire(cls, data: Mapping[str, Any]) -> Checkpoint:
        return cls(
            id=data["id"],
            parent_id=data.get("parent_id"),
            created_at=_moment(data["created_at"]),
            current=data["current"],
            lost=data.get("lost"),
        )
