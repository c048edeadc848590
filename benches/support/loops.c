/* Four programs of loops.rs in plain C, with their gradients by hand.
 *
 *     cc -O3 -march=native -o loops loops.c -lm
 *
 * Answers each line of standard input, a request of loops.rs in JSON, with a JSON list of numbers:
 * the elements of a result, or the milliseconds per call. */

#define _POSIX_C_SOURCE 199309L
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* Writes scale * sin(1), scale * sin(2), ... */
static void wave(float *x, int count, float scale) {
    for (int at = 0; at < count; at++) x[at] = scale * sinf(at + 1.0f);
}

/* ---- cable: twelve coupled FitzHugh-Nagumo compartments ---- */

enum { CELLS = 12, CABLE_STEPS = 1000 };
static float cable_x[4], cable_gradient[4], cable_loss;
static float v_at[CABLE_STEPS][CELLS], w_at[CABLE_STEPS][CELLS];

static int left_of(int at) { return at > 0 ? at - 1 : 0; }
static int right_of(int at) { return at + 1 < CELLS ? at + 1 : CELLS - 1; }

static void cable(void) {
    const float diffusion = cable_x[0], rate = cable_x[1], offset = cable_x[2];
    const float current = cable_x[3];
    float v[CELLS], w[CELLS];
    for (int at = 0; at < CELLS; at++) {
        v[at] = 0.05f * at - 0.6f;
        w[at] = 0.05f * (at + CELLS) - 0.6f;
    }
    for (int step = 0; step < CABLE_STEPS; step++) {
        float next[CELLS];
        memcpy(v_at[step], v, sizeof v);
        memcpy(w_at[step], w, sizeof w);
        for (int at = 0; at < CELLS; at++) {
            float flow = diffusion * (v[left_of(at)] + v[right_of(at)] - v[at] * 2.0f);
            float cubic = v[at] * v[at] * v[at] * (1.0f / 3.0f);
            next[at] = v[at] + (v[at] - cubic - w[at] + flow + current) * 0.01f;
        }
        for (int at = 0; at < CELLS; at++)
            w[at] += rate * (v[at] + offset - w[at] * 0.8f) * 0.01f;
        memcpy(v, next, sizeof v);
    }
    float to_v[CELLS], to_w[CELLS], to_x[4] = {0};
    cable_loss = 0;
    for (int at = 0; at < CELLS; at++) {
        cable_loss += v[at] * v[at] + w[at] * w[at];
        to_v[at] = 2 * v[at];
        to_w[at] = 2 * w[at];
    }
    for (int step = CABLE_STEPS - 1; step >= 0; step--) {
        const float *v = v_at[step], *w = w_at[step];
        float before_v[CELLS], before_w[CELLS], flow[CELLS];
        for (int at = 0; at < CELLS; at++) {
            float of_v = to_v[at] * 0.01f, of_w = to_w[at] * 0.01f;
            to_x[0] += of_v * (v[left_of(at)] + v[right_of(at)] - v[at] * 2.0f);
            to_x[1] += of_w * (v[at] + offset - w[at] * 0.8f);
            to_x[2] += of_w * rate;
            to_x[3] += of_v;
            flow[at] = of_v * diffusion;
            before_v[at] = to_v[at] + of_v * (1 - v[at] * v[at]) - 2 * flow[at] + of_w * rate;
            before_w[at] = to_w[at] - of_v - of_w * rate * 0.8f;
        }
        for (int at = 0; at < CELLS; at++) {
            before_v[left_of(at)] += flow[at];
            before_v[right_of(at)] += flow[at];
        }
        memcpy(to_v, before_v, sizeof to_v);
        memcpy(to_w, before_w, sizeof to_w);
    }
    memcpy(cable_gradient, to_x, sizeof to_x);
}

/* ---- kalman: the likelihood of a filter with a state of four dimensions ---- */

enum { STATE = 4, KALMAN_STEPS = 1000 };
static float noise_factor[STATE][STATE], observer[STATE], observed[KALMAN_STEPS];
static float to_noise_factor[STATE][STATE], to_observer[STATE], to_observed[KALMAN_STEPS];
static float kalman_loss;
static struct Filter {
    float mean[STATE], p[STATE][STATE], ph[STATE], gain[STATE], s, error;
} filter_at[KALMAN_STEPS];

/* The transition has 0.95 on the diagonal and 0.1 above it. */
static float transition(int i, int j) { return i == j ? 0.95f : j == i + 1 ? 0.1f : 0; }

static void kalman(void) {
    float of[STATE][STATE], noise[STATE][STATE], mean[STATE] = {0}, p[STATE][STATE];
    for (int i = 0; i < STATE; i++)
        for (int j = 0; j < STATE; j++) {
            of[i][j] = transition(i, j);
            noise[i][j] = i == j ? 0.1f : 0;
            p[i][j] = i == j;
            for (int k = 0; k < STATE; k++)
                noise[i][j] += noise_factor[i][k] * noise_factor[j][k];
        }
    kalman_loss = 0;
    for (int step = 0; step < KALMAN_STEPS; step++) {
        struct Filter *f = &filter_at[step];
        float moved[STATE][STATE] = {0};
        f->s = 0.5f;
        f->error = observed[step];
        for (int i = 0; i < STATE; i++)
            for (int k = 0; k < STATE; k++)
                for (int j = 0; j < STATE; j++) moved[i][j] += of[i][k] * p[k][j];
        for (int i = 0; i < STATE; i++) {
            f->mean[i] = f->ph[i] = 0;
            for (int k = 0; k < STATE; k++) f->mean[i] += of[i][k] * mean[k];
            for (int j = 0; j < STATE; j++) {
                f->p[i][j] = noise[i][j];
                for (int k = 0; k < STATE; k++) f->p[i][j] += moved[i][k] * of[j][k];
                f->ph[i] += f->p[i][j] * observer[j];
            }
            f->s += observer[i] * f->ph[i];
            f->error -= observer[i] * f->mean[i];
        }
        for (int i = 0; i < STATE; i++) {
            f->gain[i] = f->ph[i] / f->s;
            mean[i] = f->mean[i] + f->gain[i] * f->error;
            for (int j = 0; j < STATE; j++) p[i][j] = f->p[i][j] - f->gain[i] * f->ph[j];
        }
        kalman_loss += logf(f->s) + f->error * f->error / f->s;
    }
    float to_mean[STATE] = {0}, to_p[STATE][STATE] = {0}, to_noise[STATE][STATE] = {0};
    memset(to_observer, 0, sizeof to_observer);
    for (int step = KALMAN_STEPS - 1; step >= 0; step--) {
        const struct Filter *f = &filter_at[step];
        float to_gain[STATE], to_ph[STATE] = {0}, moved[STATE][STATE] = {0};
        float to_error = 2 * f->error / f->s;
        float to_s = 1 / f->s - f->error * f->error / (f->s * f->s);
        for (int i = 0; i < STATE; i++) {
            to_gain[i] = to_mean[i] * f->error;
            for (int j = 0; j < STATE; j++) {
                to_gain[i] -= to_p[i][j] * f->ph[j];
                to_ph[j] -= to_p[i][j] * f->gain[i];
            }
            to_error += to_mean[i] * f->gain[i];
            to_s -= to_gain[i] * f->ph[i] / (f->s * f->s);
        }
        for (int i = 0; i < STATE; i++) {
            to_ph[i] += to_gain[i] / f->s + to_s * observer[i];
            to_observer[i] += to_s * f->ph[i] - to_error * f->mean[i];
            to_mean[i] -= to_error * observer[i];
        }
        for (int i = 0; i < STATE; i++)
            for (int j = 0; j < STATE; j++) {
                to_observer[j] += f->p[i][j] * to_ph[i];
                to_p[i][j] += to_ph[i] * observer[j];
                to_noise[i][j] += to_p[i][j];
            }
        float before_mean[STATE] = {0}, before_p[STATE][STATE] = {0};
        for (int k = 0; k < STATE; k++)
            for (int i = 0; i < STATE; i++) {
                before_mean[i] += of[k][i] * to_mean[k];
                for (int j = 0; j < STATE; j++) moved[i][j] += of[k][i] * to_p[k][j];
            }
        for (int i = 0; i < STATE; i++)
            for (int k = 0; k < STATE; k++)
                for (int j = 0; j < STATE; j++) before_p[i][j] += moved[i][k] * of[k][j];
        memcpy(to_mean, before_mean, sizeof to_mean);
        memcpy(to_p, before_p, sizeof to_p);
        to_observed[step] = to_error;
    }
    memset(to_noise_factor, 0, sizeof to_noise_factor);
    for (int i = 0; i < STATE; i++)
        for (int j = 0; j < STATE; j++)
            for (int k = 0; k < STATE; k++)
                to_noise_factor[i][k] += (to_noise[i][j] + to_noise[j][i]) * noise_factor[j][k];
}

/* ---- lstm: 32 units, a batch of one ---- */

enum { UNITS = 32, GATES = 4 * UNITS, LSTM_STEPS = 500 };
static float of_input[UNITS][GATES], of_state[UNITS][GATES], bias[GATES];
static float inputs[LSTM_STEPS][UNITS];
static float to_of_input[UNITS][GATES], to_of_state[UNITS][GATES], to_bias[GATES];
static float to_inputs[LSTM_STEPS][UNITS], lstm_loss;
static float gate_at[LSTM_STEPS][GATES], c_at[LSTM_STEPS + 1][UNITS], h_at[LSTM_STEPS + 1][UNITS];

static float logistic(float x) { return 1 / (1 + expf(-x)); }

static void lstm(void) {
    lstm_loss = 0;
    for (int step = 0; step < LSTM_STEPS; step++) {
        float *gate = gate_at[step];
        const float *x = inputs[step], *h = h_at[step];
        memcpy(gate, bias, sizeof bias);
        for (int k = 0; k < UNITS; k++)
            for (int at = 0; at < GATES; at++)
                gate[at] += x[k] * of_input[k][at] + h[k] * of_state[k][at];
        for (int at = 0; at < GATES; at++)
            gate[at] = at / UNITS == 2 ? tanhf(gate[at]) : logistic(gate[at]);
        for (int at = 0; at < UNITS; at++) {
            float update = gate[UNITS + at] * gate[2 * UNITS + at];
            float c = c_at[step + 1][at] = gate[at] * c_at[step][at] + update;
            float h = h_at[step + 1][at] = gate[3 * UNITS + at] * tanhf(c);
            lstm_loss += h * h;
        }
    }
    float to_c[UNITS] = {0}, to_h[UNITS] = {0};
    memset(to_of_input, 0, sizeof to_of_input);
    memset(to_of_state, 0, sizeof to_of_state);
    memset(to_bias, 0, sizeof to_bias);
    for (int step = LSTM_STEPS - 1; step >= 0; step--) {
        const float *gate = gate_at[step], *x = inputs[step], *h = h_at[step];
        float to_gate[GATES];
        for (int at = 0; at < UNITS; at++) {
            float f = gate[at], i = gate[UNITS + at], g = gate[2 * UNITS + at];
            float o = gate[3 * UNITS + at], t = tanhf(c_at[step + 1][at]);
            float of_h = to_h[at] + 2 * h_at[step + 1][at];
            float of_c = to_c[at] + of_h * o * (1 - t * t);
            to_gate[at] = of_c * c_at[step][at] * f * (1 - f);
            to_gate[UNITS + at] = of_c * g * i * (1 - i);
            to_gate[2 * UNITS + at] = of_c * i * (1 - g * g);
            to_gate[3 * UNITS + at] = of_h * t * o * (1 - o);
            to_c[at] = of_c * f;
        }
        for (int at = 0; at < GATES; at++) to_bias[at] += to_gate[at];
        for (int k = 0; k < UNITS; k++) {
            float of_x = 0, of_h = 0;
            for (int at = 0; at < GATES; at++) {
                to_of_input[k][at] += x[k] * to_gate[at];
                to_of_state[k][at] += h[k] * to_gate[at];
                of_x += of_input[k][at] * to_gate[at];
                of_h += of_state[k][at] * to_gate[at];
            }
            to_inputs[step][k] = of_x;
            to_h[k] = of_h;
        }
    }
}

/* ---- ode: a perceptron 2-32-32-2, by Runge-Kutta of order 4 ---- */

enum { WIDTH = 32, ODE_STEPS = 200 };
static float first[2][WIDTH], second[WIDTH][WIDTH], third[WIDTH][2], start[2];
static float to_first[2][WIDTH], to_second[WIDTH][WIDTH], to_third[WIDTH][2], to_start[2];
static float ode_loss;
static struct Field {
    float y[2], a[WIDTH], b[WIDTH];
} field_at[ODE_STEPS][4];

static void field(struct Field *f, const float *y, float *k) {
    float a[WIDTH], b[WIDTH] = {0};
    for (int at = 0; at < WIDTH; at++) a[at] = tanhf(y[0] * first[0][at] + y[1] * first[1][at]);
    for (int i = 0; i < WIDTH; i++)
        for (int at = 0; at < WIDTH; at++) b[at] += a[i] * second[i][at];
    k[0] = k[1] = 0;
    for (int at = 0; at < WIDTH; at++) {
        b[at] = tanhf(b[at]);
        k[0] += b[at] * third[at][0];
        k[1] += b[at] * third[at][1];
    }
    memcpy(f->y, y, sizeof f->y);
    memcpy(f->a, a, sizeof a);
    memcpy(f->b, b, sizeof b);
}

static void field_back(const struct Field *f, const float *to_k, float *to_y) {
    float to_a[WIDTH], to_b[WIDTH];
    for (int at = 0; at < WIDTH; at++) {
        float of_b = third[at][0] * to_k[0] + third[at][1] * to_k[1];
        to_third[at][0] += f->b[at] * to_k[0];
        to_third[at][1] += f->b[at] * to_k[1];
        to_b[at] = of_b * (1 - f->b[at] * f->b[at]);
    }
    for (int i = 0; i < WIDTH; i++) {
        float of_a = 0;
        for (int at = 0; at < WIDTH; at++) {
            to_second[i][at] += f->a[i] * to_b[at];
            of_a += second[i][at] * to_b[at];
        }
        to_a[i] = of_a * (1 - f->a[i] * f->a[i]);
    }
    to_y[0] = to_y[1] = 0;
    for (int at = 0; at < WIDTH; at++)
        for (int i = 0; i < 2; i++) {
            to_first[i][at] += f->y[i] * to_a[at];
            to_y[i] += first[i][at] * to_a[at];
        }
}

static void ode(void) {
    const float h = 0.05f;
    const float ahead[4] = {0, h / 2, h / 2, h}, weight[4] = {h / 6, h / 3, h / 3, h / 6};
    float y[2] = {start[0], start[1]};
    for (int step = 0; step < ODE_STEPS; step++) {
        float k[2] = {0}, sum[2] = {0};
        for (int stage = 0; stage < 4; stage++) {
            float at[2] = {y[0] + k[0] * ahead[stage], y[1] + k[1] * ahead[stage]};
            field(&field_at[step][stage], at, k);
            for (int i = 0; i < 2; i++) sum[i] += k[i] * weight[stage];
        }
        for (int i = 0; i < 2; i++) y[i] += sum[i];
    }
    ode_loss = y[0] * y[0] + y[1] * y[1];
    memset(to_first, 0, sizeof to_first);
    memset(to_second, 0, sizeof to_second);
    memset(to_third, 0, sizeof to_third);
    float to_y[2] = {2 * y[0], 2 * y[1]};
    for (int step = ODE_STEPS - 1; step >= 0; step--) {
        float of_k[2] = {0}, before[2] = {to_y[0], to_y[1]};
        for (int stage = 3; stage >= 0; stage--) {
            float to_k[2], back[2];
            for (int i = 0; i < 2; i++) to_k[i] = to_y[i] * weight[stage] + of_k[i];
            field_back(&field_at[step][stage], to_k, back);
            for (int i = 0; i < 2; i++) {
                before[i] += back[i];
                of_k[i] = back[i] * ahead[stage];
            }
        }
        memcpy(to_y, before, sizeof to_y);
    }
    memcpy(to_start, to_y, sizeof to_y);
}

/* ---- the programs by name ---- */

struct Result {
    const float *elements;
    int count;
};

static const struct Program {
    const char *name;
    void (*run)(void);
    struct Result results[5];
} PROGRAMS[] = {
    {"cable", cable, {{cable_gradient, 4}, {&cable_loss, 1}}},
    {"kalman", kalman, {{to_noise_factor[0], STATE * STATE}, {to_observer, STATE},
                        {to_observed, KALMAN_STEPS}, {&kalman_loss, 1}}},
    {"lstm", lstm, {{to_of_input[0], UNITS * GATES}, {to_of_state[0], UNITS * GATES},
                    {to_bias, GATES}, {to_inputs[0], LSTM_STEPS * UNITS}, {&lstm_loss, 1}}},
    {"ode", ode, {{to_first[0], 2 * WIDTH}, {to_second[0], WIDTH * WIDTH},
                  {to_third[0], 2 * WIDTH}, {to_start, 2}, {&ode_loss, 1}}},
};

static double milliseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1e3 + now.tv_nsec / 1e6;
}

int main(void) {
    char line[256], key[16], name[16], what[16];
    int number;
    wave(cable_x, 4, 0.3f);
    wave(noise_factor[0], STATE * STATE, 0.1f);
    wave(observer, STATE, 1.0f);
    wave(observed, KALMAN_STEPS, 1.0f);
    wave(of_input[0], UNITS * GATES, 0.1f);
    wave(of_state[0], UNITS * GATES, 0.1f);
    wave(bias, GATES, 0.1f);
    wave(inputs[0], LSTM_STEPS * UNITS, 1.0f);
    wave(first[0], 2 * WIDTH, 0.2f);
    wave(second[0], WIDTH * WIDTH, 0.2f);
    wave(third[0], 2 * WIDTH, 0.2f);
    wave(start, 2, 1.0f);
    while (fgets(line, sizeof line, stdin)) {
        const char *form = "{\"%15[a-z]\":%d,\"name\":\"%15[a-z]\",\"what\":\"%15[a-z]\"}";
        if (sscanf(line, form, key, &number, name, what) != 4) return 1;
        const struct Program *program = PROGRAMS;
        while (strcmp(program->name, name) != 0) program++;
        if (strcmp(what, "results") == 0) {
            struct Result result = program->results[number];
            program->run();
            for (int at = 0; at < result.count; at++)
                printf("%s%.9g", at ? "," : "[", result.elements[at]);
            printf("]\n");
        } else {
            double begin = milliseconds();
            for (int call = 0; call < number; call++) program->run();
            printf("[%.9g]\n", (milliseconds() - begin) / number);
        }
        fflush(stdout);
    }
    return 0;
}
