/** `service trust`: lets settings files of a project run and reach what they name, once a person has seen it. */
import { createHash } from 'node:crypto';
import { readFile, realpath, stat } from 'node:fs/promises';
import { basename, dirname, join, resolve, sep } from 'node:path';
import type { SettingsError, SettingsPlaces, TrustEntry } from '../../../server/config/config.ts';
import { canAsk } from '../ask.ts';
import { CommandFailure, exitCodes } from '../failures.ts';
import { localTime } from '../local-time.ts';
import { displayPath, isTerminal, notice, print, printJson, printTable } from '../output.ts';
import { currentPlaces, currentSettings } from '../places.ts';
import { askTrust, type ReviewedFile, recordReviewed, reviewProject, showReview } from '../project-trust.ts';
import { noticeDiagnostics } from '../settings-notices.ts';

/** As they come from the command line. */
interface TrustOptions {
  readonly yes?: boolean;
  readonly list?: boolean;
  readonly show?: boolean;
  /** True without a file. */
  readonly revoke?: string | true;
  readonly json?: boolean;
}

/** Does what the options say; without any, shows what there is to trust and asks. */
export async function trust(options: TrustOptions): Promise<void> {
  if (options.list) await listTrusted(options);
  else if (options.revoke !== undefined) await revoke(options.revoke, options);
  else if (options.show) showAll(await reviewProject(await currentSettings()), options);
  else await trustProject(options);
}

/** Before a run: shows what does not count yet, on standard error, and asks. Where nobody is there, nothing happens. */
export async function offerTrust(places: SettingsPlaces): Promise<void> {
  if (!canAsk()) return;
  const { loadSettings, TrustStoreError } = await import('../../../server/config/config.ts');
  const loaded = await loadSettings(places);
  // Where trust cannot be kept, the run goes on without.
  const notKept = (tell: (error: SettingsError) => void) => (error: unknown) => {
    if (!(error instanceof TrustStoreError)) throw error;
    tell(error);
  };
  // The warnings of the settings say why a store that is there cannot be believed.
  const files = await reviewProject(loaded).catch(notKept(() => undefined));
  const open = files?.filter(({ layer }) => !layer.trusted) ?? [];
  if (open.length === 0) return;
  for (const file of open) showReview(file, process.stderr);
  const trusted = (await askTrust(open)) ?? [];
  await recordReviewed(loaded, trusted).catch(notKept(({ diagnostics }) => noticeDiagnostics(diagnostics)));
}

async function trustProject(options: TrustOptions): Promise<void> {
  const loaded = await currentSettings();
  const files = await reviewProject(loaded);
  const open = files.filter(({ layer }) => !layer.trusted);
  if (open.length === 0) return sayNothingToTrust(files, options);
  // What is asked about is shown first, where the answer of a program does not stand.
  const stream = options.json ? process.stderr : process.stdout;
  if (!options.json || (!options.yes && canAsk())) for (const file of open) showReview(file, stream);
  const trusted = options.yes ? open : await askTrust(open);
  if (trusted === null) {
    if (options.json) printJson(open.map(describe));
    throw new CommandFailure(
      'Nothing was trusted, since there is no terminal to ask at. With --yes it is trusted unasked.',
      exitCodes.untrusted,
    );
  }
  await recordReviewed(loaded, trusted);
  sayTrusted(trusted, options);
}

function sayNothingToTrust(files: readonly ReviewedFile[], { json }: TrustOptions): void {
  if (json) printJson([]);
  else if (files.length === 0)
    print('Nothing here needs trust: no settings file of this project runs or reaches anything.');
  else for (const { layer } of files) print(`${displayPath(layer.file)} is trusted already, as it stands.`);
}

function sayTrusted(trusted: readonly ReviewedFile[], { json }: TrustOptions): void {
  if (json) printJson(trusted.map(describe));
  else if (trusted.length === 0) print('Nothing was trusted.');
  for (const { layer, review } of json ? [] : trusted) {
    const sections = review.sections.map(({ pointer }) => pointer.slice(1).replaceAll('/', '.'));
    print(`Trusted ${displayPath(layer.file)}, until it changes: ${sections.join(', ')}.`);
  }
}

function showAll(files: readonly ReviewedFile[], options: TrustOptions): void {
  if (options.json) printJson(files.map(describe));
  else if (files.length === 0) sayNothingToTrust(files, options);
  else for (const file of files) showReview(file, process.stdout);
}

function describe({ layer, review }: ReviewedFile) {
  const { scope, file, sha256, trusted } = layer;
  return { file, scope, sha256, trusted, sections: review.sections, diff: review.diff };
}

async function listTrusted({ json }: TrustOptions): Promise<void> {
  const { readTrust } = await import('../../../server/config/config.ts');
  const { dataHome, projectRoot } = await currentPlaces();
  const entries = (await readTrust(dataHome, projectRoot)).all();
  const rows = await Promise.all(
    [...entries].map(async ([file, entry]) => ({
      file,
      trusted_at: entry.trustedAt,
      sha256: entry.sha256,
      state: await stateOf(file, entry),
    })),
  );
  if (rows.length === 0 && !json) return notice('No file is trusted.');
  printTable(
    rows,
    [
      { title: 'file', value: ({ file }) => displayPath(file) },
      { title: 'trusted', value: ({ trusted_at: at }) => (isTerminal() ? localTime(at) : at) },
      {
        title: 'state',
        value: ({ state }) => state,
        style: ({ state }) => (state === 'unchanged' ? 'green' : 'yellow'),
      },
    ],
    { json },
  );
}

/** Whether the trust still counts: it is for one path and the exact bytes there. */
async function stateOf(file: string, { sha256, next }: TrustEntry): Promise<string> {
  try {
    // A pipe in its place would never end.
    if ((await realpath(file)) !== file || !(await stat(file)).isFile()) return 'replaced';
    const now = createHash('sha256')
      .update(await readFile(file))
      .digest('hex');
    return now === sha256 || now === next?.sha256 ? 'unchanged' : 'changed';
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code ?? 'unknown error'; // these reject with nothing else
    return code === 'ENOENT' || code === 'ENOTDIR' ? 'gone' : `cannot be read (${code})`;
  }
}

async function revoke(file: string | true, { json }: TrustOptions): Promise<void> {
  const { readTrust, revokeTrust } = await import('../../../server/config/config.ts');
  const { dataHome, projectRoot } = await currentPlaces();
  const entries = (await readTrust(dataHome, projectRoot)).all();
  const paths =
    file === true
      ? [...entries.keys()].filter((path) => path.startsWith(projectRoot + sep))
      : [await realPathOf(file)];
  const revoked = await revokeTrust(dataHome, projectRoot, paths);
  if (revoked.length === 0 && file !== true)
    throw new CommandFailure(`${file} was not trusted. What is trusted: service trust --list`);
  if (json) return printJson(revoked);
  if (revoked.length === 0) return notice('No file of this project was trusted.');
  for (const path of revoked) print(`${displayPath(path)} is no longer trusted.`);
}

/** Trust is kept for real paths; that of a file which is gone can be taken back too. */
async function realPathOf(file: string): Promise<string> {
  const path = resolve(file);
  const folder = await realpath(dirname(path)).catch(() => dirname(path));
  return realpath(path).catch(() => join(folder, basename(path)));
}
