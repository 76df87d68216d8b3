// One machine: its cores, memory, GPUs and disk, and who uses them.
import type { JSX } from "preact";
import type { Capacity, Gpu, MachineUser, Unit } from "../api/types";
import { amountText, percent } from "../model/amounts";
import { jobsLink } from "../model/route";
import { Meter } from "../parts/bar";
import { num, PlainTable } from "../parts/plaintable";
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
  const only = overview.meta.namespace ?? "";
  return (
    <>
      <div class="title-line">
        <h1>{machine.name ? <Name text={machine.name} /> : "Machine"}</h1>
        <span class="muted">"In use" means requested by running jobs.</span>
      </div>
      <div class="three">
        <Part title="Cores" id="cores-title" part={machine.cpus} unit="cpu" />
        <Part title="Memory" id="memory-title" part={machine.memory} unit="bytes" />
        <Part title="Disk" id="disk-title" part={disk} unit="bytes" />
      </div>
      <GpuPanel gpus={machine.gpus ?? []} free={machine.gpusFree} only={only} />
      <UserPanel users={machine.users ?? []} only={only} />
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
  const capacity = part?.capacity ?? 0;
  const text = (value: number): string => amountText(value, unit);
  return (
    <Panel title={title} id={id}>
      {part && capacity > 0 ? (
        part.used === null ? (
          <OwnPart own={part.own ?? 0} capacity={capacity} text={text} />
        ) : (
          <>
            <p class="answer">
              {text(part.used ?? 0)} of {text(capacity)} in use
            </p>
            <Meter part={part.used ?? 0} whole={capacity} label={`${percent(part.used ?? 0, capacity)} % in use`} />
            <p class="muted">
              {text(Math.max(0, capacity - (part.used ?? 0)))} free
              {typeof part.own === "number" && `; ${text(part.own)} of what is in use is yours`}
            </p>
          </>
        )
      ) : (
        <Empty>Not known.</Empty>
      )}
    </Panel>
  );
}

/** Of a user who may not learn what others use: nothing is said about what is free. */
function OwnPart({
  own,
  capacity,
  text,
}: {
  own: number;
  capacity: number;
  text: (value: number) => string;
}): JSX.Element {
  return (
    <>
      <p class="answer">
        Your jobs use {text(own)} of {text(capacity)}
      </p>
      <Meter part={own} whole={capacity} label={`${percent(own, capacity)} % in use by your jobs`} />
      <p class="muted">You may not see what others use.</p>
    </>
  );
}

function GpuPanel({ gpus, free, only }: { gpus: Gpu[]; free: number | null | undefined; only: string }): JSX.Element {
  const used = gpus.filter((gpu) => gpu.job || gpu.user).length;
  const known = free === undefined ? gpus.length - used : free;
  const count = known === null ? `${used} of ${gpus.length} yours` : `${known} of ${gpus.length} free`;
  return (
    <Panel title="GPUs" id="gpus-title" aside={gpus.length > 0 && <span class="muted">{count}</span>}>
      {gpus.length === 0 ? (
        <Empty>The machine has no GPUs that pykueue manages.</Empty>
      ) : (
        <ul class="gpus">
          {gpus.map((gpu, index) => (
            <GpuItem key={index} gpu={gpu} unused={only && known !== gpus.length - used ? "not yours" : "free"} />
          ))}
        </ul>
      )}
    </Panel>
  );
}

function GpuItem({ gpu, unused }: { gpu: Gpu; unused: string }): JSX.Element {
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
        <span class="muted">{unused}</span>
      )}
    </li>
  );
}

function UserPanel({ users, only }: { users: MachineUser[]; only: string }): JSX.Element {
  const aside = only && (
    <span class="muted">
      only those of namespace <Name text={only} most={64} />
    </span>
  );
  return (
    <Panel title="Users" id="users-title" aside={aside}>
      {users.length === 0 ? (
        <Empty>{only ? "You have no job; those of others are not listed." : "No user has a job."}</Empty>
      ) : (
        <Wide label="Users">
          <PlainTable heads={["User", num("Running"), num("Pending"), num("Cores"), num("Memory"), num("GPUs")]}>
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
          </PlainTable>
        </Wide>
      )}
    </Panel>
  );
}
