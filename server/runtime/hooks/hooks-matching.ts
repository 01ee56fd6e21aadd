/** Which hooks of the settings a tool call meets. */
import { RE2JS } from 're2js';
import type { ClientConfig, Hook } from '../../contract/config.ts';

/** A hook that a tool call meets, and where it stands in the settings. */
export interface MetHook {
  readonly hook: Hook;
  /** `hooks.pre_tool_use[0]`: the first of the settings as they were put together. */
  readonly name: string;
  /** Why nobody can tell whether it matches; null when it does match. */
  readonly broken: string | null;
}

/** The same hook, by identity, is compiled once: settings stay the same objects until they change. */
const compiled = new WeakMap<Hook, RE2JS | Error>();

/**
 * The hooks whose matcher is found in the tool's name, in the order of the settings; the same command only once.
 * A matcher that is no regular expression matches, as broken: a guard must not vanish because of a typing error.
 */
export function hooksFor(config: ClientConfig, toolName: string): readonly MetHook[] {
  const met = (config.hooks?.pre_tool_use ?? []).flatMap((hook, index): MetHook[] => {
    const expression = expressionOf(hook);
    const name = `hooks.pre_tool_use[${index}]`;
    if (expression instanceof Error) return [{ hook, name, broken: expression.message }];
    return !expression || expression.test(toolName) ? [{ hook, name, broken: null }] : [];
  });
  return [...Map.groupBy(met, ({ hook }) => hook.command).values()].flatMap(strictest);
}

/** Throws RangeError for hooks that a program hands in and that could never work; files are checked when they are read. */
export function checkHooks({ hooks }: ClientConfig): void {
  for (const [index, hook] of (hooks?.pre_tool_use ?? []).entries()) {
    const name = `hooks.pre_tool_use[${index}]`;
    const expression = expressionOf(hook);
    if (expression instanceof Error) throw new RangeError(`${name}.matcher: ${expression.message}`);
    if (typeof hook.command !== 'string' || hook.command.trim() === '')
      throw new RangeError(`${name}.command is empty: write the command that the shell is to run.`);
    if (hook.timeout !== undefined && !(hook.timeout > 0))
      throw new RangeError(`${name}.timeout is ${hook.timeout}: write a number of seconds above 0.`);
  }
}

/** Null where every tool matches. */
function expressionOf(hook: Hook): RE2JS | Error | null {
  if (!hook.matcher) return null;
  const known = compiled.get(hook) ?? compile(hook.matcher);
  compiled.set(hook, known);
  return known;
}

function compile(matcher: string): RE2JS | Error {
  try {
    return RE2JS.compile(matcher);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    return new Error(`${JSON.stringify(matcher)} is no regular expression in the syntax of RE2 (${reason}).`);
  }
}

/** Of hooks with one command the first that starts it counts, and denies on errors if any of them does. */
function strictest(same: readonly MetHook[]): readonly MetHook[] {
  const lenient = same.every(({ hook }) => hook.on_error === 'allow');
  const first = same.find(({ broken }) => broken === null) ?? same[0];
  if (!first || lenient) return first ? [first] : [];
  return [{ ...first, hook: { ...first.hook, on_error: 'deny' } }];
}
