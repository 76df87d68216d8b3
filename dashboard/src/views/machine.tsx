// One machine: its cores, memory, GPUs and disk, and who uses them.
import type { JSX } from "preact";
import type { Capacity, Gpu, MachineUser, Unit } from "../api/types";
import { amountText, percent } from "../model/amounts";
import { jobsLink } from "../model/route";
import { Meter } from "../parts/bar";
import { Empty, JobLink, Name, Panel, Wide } from "../parts/text";
import { useTitle } from "../state/hooks";
import { useLive } from "../state/live";

export function MachineView(): JSX.Element {
  const { overview } = useLive("overview");
  useTitle("Machine");
  const machine = overview?.machine;
  if (!machine) {
    return (
      <div class="empty">
        <h1>Machine</h1>
        <p>
          This page is of a cluster. Only <code>pykueue up</code>, which runs jobs on one machine, shows its parts.
        </p>
      </div>
    );
  }
  const disk = machine.disk
    ? { ...machine.disk, used: machine.disk.used ?? (machine.disk.capacity ?? 0) - (machine.disk.free ?? 0) }
    : null;
  return (
    <>
      <div class="title-line">
        <h1>{machine.name ? <Name text={machine.name} /> : "Machine"}</h1>
        <span class="muted">of cores, memory and GPUs, what running jobs request counts as in use</span>
      </div>
      <div class="three">
        <Part title="Cores" id="cores-title" part={machine.cpus} unit="cpu" />
        <Part title="Memory" id="memory-title" part={machine.memory} unit="bytes" />
        <Part title="Disk" id="disk-title" part={disk} unit="bytes" />
      </div>
      <GpuPanel gpus={machine.gpus ?? []} />
      <UserPanel users={machine.users ?? []} />
    </>
  );
}

function Part({
  title,
  id,
  part,
  unit,
}: {
  title: string;
  id: string;
  part: Capacity | null | undefined;
  unit: Unit;
}): JSX.Element {
  const used = part?.used ?? 0,
    capacity = part?.capacity ?? 0;
  const text = (value: number): string => amountText(value, unit);
  return (
    <Panel title={title} id={id}>
      {part && capacity > 0 ? (
        <>
          <p class="answer">
            {text(used)} of {text(capacity)} in use
          </p>
          <Meter part={used} whole={capacity} label={`${percent(used, capacity)} % in use`} />
          <p class="muted">{text(Math.max(0, capacity - used))} free</p>
        </>
      ) : (
        <Empty>Not known.</Empty>
      )}
    </Panel>
  );
}

function GpuPanel({ gpus }: { gpus: Gpu[] }): JSX.Element {
  const free = gpus.filter((gpu) => !gpu.job && !gpu.user).length;
  return (
    <Panel
      title="GPUs"
      id="gpus-title"
      aside={
        gpus.length > 0 && (
          <span class="muted">
            {free} of {gpus.length} free
          </span>
        )
      }
    >
      {gpus.length === 0 ? (
        <Empty>The machine has no GPUs that pykueue manages.</Empty>
      ) : (
        <ul class="gpus">
          {gpus.map((gpu, index) => (
            <GpuItem key={index} gpu={gpu} />
          ))}
        </ul>
      )}
    </Panel>
  );
}

function GpuItem({ gpu }: { gpu: Gpu }): JSX.Element {
  const [namespace = "", ...rest] = (gpu.job ?? "").split("/");
  const name = rest.join("/");
  return (
    <li class={gpu.job || gpu.user ? "gpu-used" : "gpu-free"}>
      <strong>GPU {gpu.number}</strong>
      {gpu.job || gpu.user ? (
        <span>
          {gpu.user && <Name text={gpu.user} most={60} />}
          {gpu.job && <> {name ? <JobLink namespace={namespace} name={name} /> : <Name text={gpu.job} />}</>}
        </span>
      ) : (
        <span class="muted">free</span>
      )}
    </li>
  );
}

function UserPanel({ users }: { users: MachineUser[] }): JSX.Element {
  return (
    <Panel title="Users" id="users-title">
      {users.length === 0 ? (
        <Empty>No user has a job.</Empty>
      ) : (
        <Wide label="Users">
          <table class="plain-table">
            <thead>
              <tr>
                <th scope="col">User</th>
                <th scope="col" class="num">
                  Running
                </th>
                <th scope="col" class="num">
                  Pending
                </th>
                <th scope="col" class="num">
                  Cores
                </th>
                <th scope="col" class="num">
                  Memory
                </th>
                <th scope="col" class="num">
                  GPUs
                </th>
              </tr>
            </thead>
            <tbody>
              {users.map((user) => (
                <tr key={user.name}>
                  <td>
                    <a href={jobsLink({ owner: user.name })}>
                      <Name text={user.name} most={60} />
                    </a>
                  </td>
                  <td class="num">{user.running ?? 0}</td>
                  <td class="num">{user.pending ?? 0}</td>
                  <td class="num">{amountText(user.cpu ?? 0, "cpu")}</td>
                  <td class="num">{amountText(user.memory ?? 0, "bytes")}</td>
                  <td class="num">{user.gpus ?? 0}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </Wide>
      )}
    </Panel>
  );
}
