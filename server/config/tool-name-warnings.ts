/** Warns of names of tools as other programs write them: a guard by such a name would guard nothing, and nobody would know. */
import type { Diagnostic } from './diagnostic.ts';
import { maximumDiagnostics, type SettingsDocument } from './document.ts';
import { nearest } from './nearest.ts';
import { pointerKeys, pointerTo, valueAt } from './pointer.ts';
import { schemaAt } from './schema-marks.ts';

/** Those that extensions bring are not among the examples of the schema. */
const known: readonly string[] = [
  ...(schemaAt(['options', 'disabled_tools', '0'])?.examples ?? []).map(String),
  ...['skill', 'list_mcp_resources', 'read_mcp_resource'],
];

/** What other programs call the same, without underscores and in small letters. */
const otherNames: Readonly<Record<string, string>> = {
  read: 'view',
  strreplace: 'edit',
  webfetch: 'fetch',
  agenticfetch: 'fetch',
  websearch: 'web_search',
  todowrite: 'todos',
  task: 'agent',
  question: 'ask_user',
  askuserquestion: 'ask_user',
  bashoutput: 'job_output',
  killshell: 'job_kill',
  killbash: 'job_kill',
  exitplanmode: 'plan',
  lspdiagnostics: 'diagnostics',
  lspreferences: 'references',
  lspsymbols: 'symbols',
  lspdefinition: 'definition',
};

/** Of the lists of tools and the matchers of hooks in a file. */
export function toolNameWarnings(document: SettingsDocument): Diagnostic[] {
  const meaning = rememberedMeaning();
  const listed = ['/options/disabled_tools', '/permissions/allowed_tools'].flatMap((pointer) =>
    textsAt(document, pointer).map(({ keys, text }) => ({
      keys,
      meant: meaning(/^[^(:]*/.exec(text)?.[0] ?? ''),
    })),
  );
  const matchers = itemsAt(document, '/hooks/pre_tool_use').flatMap((_, index) => {
    const keys = ['hooks', 'pre_tool_use', String(index), 'matcher'];
    const matcher = valueAt(document.value, keys);
    return typeof matcher === 'string' ? [{ keys, meant: meantByMatcher(matcher, meaning) }] : [];
  });
  return [...listed, ...matchers]
    .filter(({ meant }) => meant !== null)
    .slice(0, maximumDiagnostics)
    .flatMap(({ keys, meant }) => warning(document, keys, meant));
}

/** A file of a stranger is read at each step of a run: of more names, nobody learns what was meant. */
const mostCompared = 500;
/** No tool has a longer name. */
const mostLetters = 200;

/** What was meant by a name that no tool has; each is compared with every tool once, and only so many of a file are. */
function rememberedMeaning(): (name: string) => string | null {
  const remembered = new Map<string, string | null>();
  return (name) => {
    if (name.length > mostLetters || known.includes(name)) return null;
    const before = remembered.get(name);
    if (before !== undefined || remembered.size === mostCompared) return before ?? null;
    const meant = meantBy(name);
    remembered.set(name, meant);
    return meant;
  };
}

/** Null where the name may be one that is not known here, of a server or of a later version. */
function meantBy(name: string): string | null {
  // What holds a star is a part of names.
  if (name === '' || name.includes('*')) return null;
  const mcp = /^mcp__(\w+?)__(\w+)$/.exec(name);
  if (mcp) return `mcp_${mcp[1]}_${mcp[2]}`;
  if (name.startsWith('mcp_')) return null;
  return otherNames[name.replaceAll('_', '').toLowerCase()] ?? nearest(name, known);
}

/** Matchers are looked for anywhere in a name, so that only one that is found in none is strange. */
function meantByMatcher(matcher: string, meaning: (name: string) => string | null): string | null {
  const names = /^\^?\(?(\w+(?:\|\w+)*)\)?\$?$/.exec(matcher)?.[1]?.split('|') ?? [];
  for (const name of names) {
    const meant = known.some((one) => one.includes(name)) ? null : meaning(name);
    if (meant) return meant;
  }
  return null;
}

function warning(document: SettingsDocument, keys: readonly string[], meant: string | null): Diagnostic[] {
  if (meant === null) return [];
  const pointer = pointerTo(keys);
  return [
    {
      severity: 'warning',
      place: document.place(document.node(pointer)?.offset ?? 0),
      pointer,
      message: 'No tool has this name, written so',
      expected: null,
      remedy: `Did you mean ${JSON.stringify(meant)}?`,
    },
  ];
}

function textsAt(document: SettingsDocument, pointer: string): { keys: readonly string[]; text: string }[] {
  return itemsAt(document, pointer).flatMap((item, index) =>
    typeof item === 'string' ? [{ keys: [...pointerKeys(pointer), String(index)], text: item }] : [],
  );
}

function itemsAt(document: SettingsDocument, pointer: string): readonly unknown[] {
  const items = valueAt(document.value, pointerKeys(pointer));
  return Array.isArray(items) ? items : [];
}
