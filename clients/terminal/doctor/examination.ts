/** What the doctor's checks are given and what they find; runs them all at once, each within a time limit. */
import type { Diagnostic, LoadedSettings, Place, SettingsPlaces } from '../../../server/config/config.ts';

/** How bad it is: a problem keeps something from working, a warning is worth knowing. */
export type Level = 'ok' | 'warning' | 'problem';

/** One thing that a check found. */
export interface Finding {
  readonly level: Level;
  /** What it is, in one sentence. */
  readonly message: string;
  /** What to do about it; with `ok`, what could be done. */
  readonly remedy?: string;
  readonly place?: Place | null;
}

/** What every check may look at. No check runs a command that settings name, nor one within a template. */
export interface Scene {
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly home: string;
  readonly places: SettingsPlaces;
  /** Null where they cannot be used. */
  readonly loaded: LoadedSettings | null;
  /** Why they cannot be used. */
  readonly faults: readonly Diagnostic[];
}

/** A scene whose settings can be used. */
export interface SettledScene extends Scene {
  readonly loaded: LoadedSettings;
}

type Findings = readonly Finding[] | Promise<readonly Finding[]>;

/** One thing to look at. */
export type Check =
  | { readonly name: string; readonly needsSettings?: false; readonly look: (scene: Scene) => Findings }
  | { readonly name: string; readonly needsSettings: true; readonly look: (scene: SettledScene) => Findings };

/** What a check found, under its name. */
export interface Found extends Finding {
  readonly check: string;
}

/** Longer than any check takes that works, on a busy machine too. What asks a server or a program has its own limit. */
const usualLimitMs = 20_000;

/** Looks at everything at once; what is found comes in the order of the checks. */
export async function examineAll(
  checks: readonly Check[],
  scene: Scene,
  limitMs = usualLimitMs,
): Promise<Found[]> {
  const found = await Promise.all(
    checks.map(async (check) =>
      (await within(limitMs, look(check, scene))).map((finding) => ({ check: check.name, ...finding })),
    ),
  );
  return found.flat();
}

/** A check that breaks is something to tell, and no reason to leave out the others. */
async function look(check: Check, scene: Scene): Promise<readonly Finding[]> {
  try {
    if (!check.needsSettings) return await check.look(scene);
    const { loaded } = scene;
    return loaded ? await check.look({ ...scene, loaded }) : [notLookedAt];
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    return [{ level: 'problem', message: `This could not be looked at: ${message}` }];
  }
}

const notLookedAt: Finding = {
  level: 'warning',
  message: 'This was not looked at, since the settings cannot be used.',
  remedy: 'Mend the settings first.',
};

async function within(
  milliseconds: number,
  findings: Promise<readonly Finding[]>,
): Promise<readonly Finding[]> {
  const late = Promise.withResolvers<readonly Finding[]>();
  const message = `No answer within ${milliseconds / 1000} seconds.`;
  // Where this process itself was busy for so long, what has come meanwhile is read before this is said.
  const timer = setTimeout(
    () => setImmediate(() => late.resolve([{ level: 'warning', message }])),
    milliseconds,
  );
  return await Promise.race([findings, late.promise]).finally(() => clearTimeout(timer));
}
