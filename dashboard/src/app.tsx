// The frame around all views: navigation, the state of the connection, messages.
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { Route } from "./model/route";
import { Banner, LiveSign } from "./parts/connection";
import { Icon } from "./parts/icon";
import { Name } from "./parts/text";
import { useLive } from "./state/live";
import { useRoute, useTitle } from "./state/hooks";
import { dismiss, useNotices } from "./state/notices";
import { storedTheme, storeTheme } from "./state/theme";
import type { Theme } from "./state/theme";
import { JobView } from "./views/job";
import { JobsView } from "./views/jobs";
import { MachineView } from "./views/machine";
import { OverviewView } from "./views/overview";
import { QueueView } from "./views/queue";
import { WhatIfView } from "./views/whatif";

export function App(): JSX.Element {
  const route = useRoute();
  const main = useRef<HTMLElement>(null);
  const subject = route.view === "job" ? `${route.namespace}/${route.name}` : route.view === "queue" ? route.name : "";
  const first = useRef(true);
  useEffect(() => {
    if (first.current) first.current = false;
    else main.current?.focus();
    window.scrollTo(0, 0);
  }, [route.view, subject]);
  return (
    <>
      <a
        class="skip"
        href="#main"
        onClick={(event) => {
          event.preventDefault();
          main.current?.focus();
        }}
      >
        Skip to the content
      </a>
      <Header view={route.view} />
      <Banner />
      <main id="main" ref={main} tabIndex={-1} class={`view-${route.view}`}>
        <View route={route} />
      </main>
      <Notices />
    </>
  );
}

function View({ route }: { route: Route }): JSX.Element {
  const { overview, connection } = useLive("overview", "connection");
  if (!overview) return <Waiting ended={connection.state === "ended"} />;
  switch (route.view) {
    case "overview":
      return <OverviewView />;
    case "queue":
      return <QueueView key={route.name} name={route.name} />;
    case "job":
      return <JobView key={`${route.namespace}/${route.name}`} namespace={route.namespace} name={route.name} />;
    case "whatif":
      return <WhatIfView sets={route.sets} queue={route.queue} />;
    case "machine":
      return <MachineView />;
    case "jobs":
      return <JobsView query={route.query} />;
    case "unknown":
      return <Unknown path={route.path} />;
  }
}

function Waiting({ ended }: { ended: boolean }): JSX.Element {
  useTitle("");
  return ended ? (
    <></>
  ) : (
    <p class="empty" role="status">
      Waiting for the first answer of the server…
    </p>
  );
}

function Unknown({ path }: { path: string }): JSX.Element {
  useTitle("Not found");
  return (
    <div class="empty">
      <h1>There is no such view</h1>
      <p>
        The address{" "}
        <code>
          <Name text={path} />
        </code>{" "}
        leads nowhere. <a href="#/">Go to the overview</a>.
      </p>
    </div>
  );
}

const LINKS = [
  ["overview", "#/", "Overview"],
  ["jobs", "#/jobs", "Jobs"],
  ["whatif", "#/whatif", "What if"],
  ["machine", "#/machine", "Machine"],
] as const;

function Header({ view }: { view: Route["view"] }): JSX.Element {
  const { overview } = useLive("overview");
  const meta = overview?.meta;
  const links = LINKS.filter(([name]) => name !== "machine" || overview?.machine);
  return (
    <header class="top">
      <a class="brand" href="#/" aria-label="pykueue, overview">
        pykueue
      </a>
      <nav aria-label="Views">
        <ul>
          {links.map(([name, href, label]) => (
            <li key={name}>
              <a href={href} aria-current={view === name ? "page" : undefined}>
                {label}
              </a>
            </li>
          ))}
        </ul>
      </nav>
      <div class="top-end">
        {meta && (
          <span class="who" title={`${meta.server}, pykueue ${meta.version}`}>
            <Name text={meta.user} most={40} />
            {meta.viewOnly && <span class="tag">view only</span>}
          </span>
        )}
        <LiveSign />
        <ThemeChoice />
      </div>
    </header>
  );
}

function ThemeChoice(): JSX.Element {
  const [theme, setTheme] = useState<Theme>(storedTheme);
  const choose = (event: Event): void => {
    const chosen = (event.target as HTMLSelectElement).value as Theme;
    setTheme(chosen);
    storeTheme(chosen);
  };
  return (
    <label class="theme">
      <span class="hidden">Theme</span>
      <select value={theme} onChange={choose}>
        <option value="auto">Auto</option>
        <option value="light">Light</option>
        <option value="dark">Dark</option>
      </select>
    </label>
  );
}

function Notices(): JSX.Element {
  const notices = useNotices();
  return (
    <div class="notices" role="status" aria-live="polite">
      {notices.map((notice) => (
        <div key={notice.id} class={`notice ${notice.bad ? "bad" : ""}`}>
          <Icon name={notice.bad ? "failing" : "completed"} tone={notice.bad ? "tone-bad" : "tone-good"} />
          <span>
            <Name text={notice.text} most={500} />
          </span>
          <button type="button" class="quiet" aria-label="Dismiss" onClick={() => dismiss(notice.id)}>
            <Icon name="failed" />
          </button>
        </div>
      ))}
    </div>
  );
}
