/** Checks of the models: whether anything can be asked, and what is chosen can be. */
import { connect } from 'node:net';
import { findProviders, noProvider } from '../askable-providers.ts';
import { placeOfEntry } from '../origin-of.ts';
import { withPlaces } from '../settings-notices.ts';
import type { Finding, SettledScene } from './examination.ts';
import { findingOf } from './settings.ts';

/** How long a server on this machine may take to let us in. */
const localMs = 500;

/** Every provider that is named; what is wrong with one, and whether any is left. */
export async function examineProviders({ loaded, environment }: SettledScene): Promise<Finding[]> {
  const { listProviders } = await import('../../../server/config/config.ts');
  const [listed, usable] = await Promise.all([
    listProviders(loaded.config, environment),
    findProviders(loaded.config, environment),
  ]);
  const chosen = [loaded.config.models?.large?.provider, loaded.config.models?.small?.provider];
  const faulty = listed.flatMap(({ id, fault }): Finding[] => {
    if (!fault) return [];
    const place = placeOfEntry(loaded, 'providers', id);
    // What nobody chose may stay unusable.
    const level = chosen.includes(id) ? 'problem' : 'warning';
    return [
      { level, message: `The provider ${id} cannot be used: ${fault.message}.`, remedy: fault.remedy, place },
    ];
  });
  if (usable.length === 0) return [{ level: 'warning', ...noProvider }, ...faulty];
  const ids = usable.map(({ id }) => id).join(', ');
  return [{ level: 'ok', message: `These can be asked: ${ids}.` }, ...faulty];
}

/** Whether the models that are chosen are those of a provider that can be asked. */
export async function examineModels({ loaded, environment }: SettledScene): Promise<Finding[]> {
  const { checkModels } = await import('../../../server/config/config.ts');
  const providers = await findProviders(loaded.config, environment);
  const found = withPlaces(await checkModels(loaded.config, providers), loaded).map(findingOf);
  const { large, small } = loaded.config.models ?? {};
  const chosen = [
    large && `large ${large.provider}:${large.model}`,
    small && `small ${small.provider}:${small.model}`,
  ];
  const named = chosen.filter(Boolean).join(', ');
  const message = named ? `Chosen: ${named}.` : 'None is chosen; the first one does all the work.';
  return found.length > 0 ? found : [{ level: 'ok', message }];
}

/** Servers of models on this machine that are not there. Nobody else is asked anything. */
export async function examineLocalServers({ loaded }: SettledScene): Promise<Finding[]> {
  const entries = Object.entries(loaded.config.providers ?? {}).filter(([, { disable }]) => !disable);
  const findings = await Promise.all(
    entries.map(async ([id, { base_url = '' }]): Promise<Finding[]> => {
      const url = localUrl(base_url);
      if (!url || (await answers(url))) return [];
      const place = placeOfEntry(loaded, 'providers', id);
      const message = `Nothing listens at ${url.host}, where the provider ${id} is.`;
      return [{ level: 'warning', message, remedy: 'Start it, or correct its base_url.', place }];
    }),
  );
  const told = findings.flat();
  return told.length > 0 ? told : [{ level: 'ok', message: 'No server on this machine is missing.' }];
}

/** Only an address that is written out: what a template would give is not worked out here. */
function localUrl(written: string): URL | null {
  const url = URL.canParse(written) && !written.includes('$') ? new URL(written) : null;
  return url && /^(localhost|127(\.\d+){3}|\[::1\])$/.test(url.hostname) ? url : null;
}

async function answers({ hostname, port, protocol }: URL): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const number = Number(port || (protocol === 'https:' ? 443 : 80));
  const socket = connect({ host: hostname.replace(/^\[|\]$/g, ''), port: number, timeout: localMs });
  socket.once('connect', () => resolve(true));
  socket.once('error', () => resolve(false));
  socket.once('timeout', () => resolve(false));
  return await promise.finally(() => socket.destroy());
}
