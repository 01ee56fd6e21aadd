/** What this server can and cannot do here, as its parts say it. */
import type { Runtime } from '../runtime/runtime.ts';
import type { Capabilities } from '../services.ts';
import type { Store } from '../store/store.ts';

export function capabilitiesOf(mode: 'single' | 'multi', store: Store, runtime: Runtime): Capabilities {
  const { sandboxUnavailable, networkAllowed, providers } = runtime;
  const off = runtime
    .tools()
    .flatMap(({ name, disabled_by }) => (disabled_by ? [`tool ${name}: ${disabled_by}`] : []));
  if (runtime.totalsUnbounded !== null)
    off.push(
      `a bound on all processes of a command together (each is bounded alone): ${runtime.totalsUnbounded}`,
    );
  if (providers.length === 0)
    off.push(
      'queries: no model provider; set OPENAI_API_KEY or ANTHROPIC_API_KEY, or add one to the global service.json',
    );
  return { mode, database: store.dialect, sandboxUnavailable, networkAllowed, providers, off };
}
