// The tree of cohorts and queues as lines of a table: one line for each flavor and resource.
import type { Unit, Usage, UsageKind } from "../api/types";

/** A cohort or queue with its rows. */
export interface TreeNode {
  id: string;
  kind: UsageKind;
  name: string;
  cohort: string;
  depth: number;
  running: number;
  pending: number;
  rows: Usage[];
  parent: TreeNode | null;
  children: TreeNode[];
  queues: number;
}

/** A line of the table. */
export interface TreeLine {
  node: TreeNode;
  usage: Usage;
  first: boolean;
  open: boolean;
}

/** How much of a resource there is and is used, over all flavors. */
export interface Total {
  resource: string;
  unit: Unit;
  nominal: number;
  used: number;
  /** Whether any quota of it is known, even one of 0. */
  known: boolean;
}

/** The nodes in the order of the rows, which have every cohort before what is in it. */
export function treeOf(usages: readonly Usage[]): TreeNode[] {
  const nodes: TreeNode[] = [];
  const path: TreeNode[] = [];
  for (const usage of usages) {
    const id = `${usage.kind}/${usage.name}`;
    const last = nodes.at(-1);
    if (last?.id === id) {
      last.rows.push(usage);
      continue;
    }
    path.length = Math.min(path.length, usage.depth);
    const parent = path.at(-1) ?? null;
    const { kind, name, cohort, depth, running, pending } = usage;
    const node: TreeNode = {
      id,
      kind,
      name,
      cohort,
      depth,
      running,
      pending,
      rows: [usage],
      parent,
      children: [],
      queues: 0,
    };
    parent?.children.push(node);
    nodes.push(node);
    if (kind === "cohort") path[usage.depth] = node;
    else for (const above of path) above.queues += 1;
  }
  return nodes;
}

export interface TreeView {
  text: string;
  resource: string;
  waitingOnly: boolean;
  /** The cohorts that are not as they are by default. */
  toggled: ReadonlySet<string>;
  openByDefault: boolean;
}

/** The lines to show: of nodes that match and of the cohorts above them, unless one of those is closed. */
export function linesOf(nodes: readonly TreeNode[], view: TreeView): TreeLine[] {
  const text = view.text.trim().toLowerCase();
  const searching = text !== "" || view.waitingOnly;
  const shown = new Set<TreeNode>();
  for (const node of nodes) {
    if (searching && !matches(node, text, view.waitingOnly)) continue;
    for (let one: TreeNode | null = node; one && !shown.has(one); one = one.parent) shown.add(one);
  }
  const lines: TreeLine[] = [];
  for (const node of nodes) {
    if (!shown.has(node) || !visible(node, view, searching)) continue;
    const rows = view.resource ? node.rows.filter((row) => row.resource === view.resource) : node.rows;
    const open = isOpen(node, view, searching);
    rows.forEach((usage, index) => lines.push({ node, usage, first: index === 0, open }));
  }
  return lines;
}

function matches(node: TreeNode, text: string, waitingOnly: boolean): boolean {
  if (node.kind === "cohort" && waitingOnly) return false;
  return node.name.toLowerCase().includes(text) && (!waitingOnly || node.pending > 0);
}

function isOpen(node: TreeNode, view: TreeView, searching: boolean): boolean {
  return view.toggled.has(node.id) !== (view.openByDefault || searching);
}

function visible(node: TreeNode, view: TreeView, searching: boolean): boolean {
  for (let one = node.parent; one; one = one.parent) if (!isOpen(one, view, searching)) return false;
  return true;
}

export type TreeOrder = "name" | "pending" | "use";

/** How full a node is: the highest share of its quotas that is used. */
export function fullness(node: TreeNode): number {
  return node.rows.reduce((most, row) => Math.max(most, row.nominal ? row.used / row.nominal : row.used ? 1 : 0), 0);
}

/** The nodes in another order; what is in a cohort stays below it. */
export function ordered(nodes: readonly TreeNode[], order: TreeOrder): readonly TreeNode[] {
  if (order === "name") return nodes;
  const weight = order === "pending" ? (node: TreeNode): number => node.pending : fullness;
  const found: TreeNode[] = [];
  const add = (some: readonly TreeNode[]): void => {
    for (const node of [...some].sort((left, right) => weight(right) - weight(left))) {
      found.push(node);
      add(node.children);
    }
  };
  add(nodes.filter((node) => !node.parent));
  return found;
}

/** What there is in all, by resource: the sums over everything that is in no cohort. */
export function totals(nodes: readonly TreeNode[]): Total[] {
  const found = new Map<string, Total>();
  for (const node of nodes) {
    if (node.parent) continue;
    for (const row of node.rows) {
      if (row.resource === "-") continue;
      const total = found.get(row.resource) ?? {
        resource: row.resource,
        unit: row.unit,
        nominal: 0,
        used: 0,
        known: false,
      };
      total.nominal += row.nominal ?? 0;
      total.used += row.used;
      total.known ||= row.nominal !== null;
      found.set(row.resource, total);
    }
  }
  return [...found.values()];
}

/** The widths of a bar in hundredths: own use, borrowed, lent within the use, and where the quota ends. */
export interface Parts {
  own: number;
  borrowed: number;
  lent: number;
  quota: number;
}

/** The parts of a usage row. The whole is its quota, or what it uses if that is more. */
export function partsOf(usage: Usage): Parts {
  const nominal = usage.nominal ?? 0;
  const whole = Math.max(nominal, usage.used);
  if (whole <= 0) return { own: 0, borrowed: 0, lent: 0, quota: 100 };
  const borrowed = Math.min(usage.borrowed, usage.used);
  const lent = Math.min(usage.lent ?? 0, usage.used - borrowed);
  const share = (value: number): number => (value / whole) * 100;
  return {
    own: share(usage.used - borrowed - lent),
    borrowed: share(borrowed),
    lent: share(lent),
    quota: share(nominal),
  };
}
