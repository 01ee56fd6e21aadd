/** The sandbox as tests find it: they are left out where bubblewrap is not installed, and nowhere else. */
import { findExecutable } from './executable.ts';
import { detectSandbox, type Sandbox, type SandboxSettings, type SandboxUnavailable } from './sandbox.ts';

/** @throws Error where there is bubblewrap and it does not work: tests that were left out would hide that. */
export async function sandboxHere(settings?: SandboxSettings): Promise<Sandbox | SandboxUnavailable> {
  const sandbox = await detectSandbox(settings);
  if ('unavailable' in sandbox && findExecutable('bwrap')) throw new Error(sandbox.unavailable);
  return sandbox;
}
