//! Private NATS servers and faulty networks for tests.
